//! A script by its digest.

use ::redis::Cmd;

/// A Lua script, and the digest by which it is called.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    code: &'static str,
    sha: String,
}

impl Script {
    /// `name` is what metrics call it.
    pub fn new(name: &'static str, code: &'static str) -> Script {
        let sha = ::redis::Script::new(code).get_hash().to_owned();
        Script { name, code, sha }
    }

    /// As in metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the server runs.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// In lower-case hexadecimal digits.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// A call by the digest, or with `whole` by the code itself, which the server then knows for the next time.
    pub(super) fn call(&self, whole: bool, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) -> Cmd {
        let (verb, script) = if whole {
            ("EVAL", self.code)
        } else {
            ("EVALSHA", self.sha.as_str())
        };
        let data: usize = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(|arg| arg.as_ref().len()).sum::<usize>();
        let mut cmd = Cmd::with_capacity(3 + keys.len() + args.len(), data + script.len() + 16);
        cmd.arg(verb).arg(script).arg(keys.len());
        keys.iter().for_each(|key| _ = cmd.arg(key.as_ref()));
        args.iter().for_each(|arg| _ = cmd.arg(arg.as_ref()));
        cmd
    }
}
