//! *Owns* where answers go: documents or pages to stdout, remarks to stderr.
//!
//! *Invariants*: with `--json` every line of stdout is one document, also when the call failed. A reader that has left
//! (a closed pipe) is no error: output ends, the exit code stays.

use std::io::{ErrorKind, Write};

use super::exit::Exit;
use super::failure::Failure;
use super::json;
use super::text::{DIM, paint};

/// A rendered answer: what a person reads, what a script reads, and the exit code.
#[derive(Debug)]
pub struct Answer {
    pub page: String,
    pub document: String,
    pub exit: Exit,
}

pub struct Output {
    json: bool,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    closed: bool,
}

impl Output {
    /// The streams of the process; they drop colours where they end in no terminal, or when NO_COLOR is set.
    pub fn standard(json: bool) -> Self {
        Self::to(json, Box::new(anstream::stdout()), Box::new(anstream::stderr()))
    }

    pub fn to(json: bool, stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>) -> Self {
        Self {
            json,
            stdout,
            stderr,
            closed: false,
        }
    }

    /// One document a line, and nothing else.
    pub fn is_for_scripts(&self) -> bool {
        self.json
    }

    /// Nobody reads any more.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// # Errors
    /// When stdout cannot be written for another reason than that its reader has left.
    pub fn answer(&mut self, answer: Answer) -> std::io::Result<Exit> {
        let text = if self.json {
            format!("{}\n", answer.document)
        } else {
            answer.page
        };
        self.print(&text)?;
        Ok(answer.exit)
    }

    /// # Errors
    /// As [`Output::answer`].
    pub fn failure(&mut self, failure: &Failure) -> std::io::Result<Exit> {
        if self.json {
            self.print(&format!("{}\n", json::document(&failure.document())))?;
        } else {
            self.note(&failure.page());
        }
        Ok(failure.exit())
    }

    /// A passing remark, on stderr so that it never stands between documents.
    pub fn remark(&mut self, text: &str) {
        self.note(&format!("{}\n", paint(DIM, text)));
    }

    /// A remark that only people need.
    pub fn remark_to_people(&mut self, text: &str) {
        if !self.json {
            self.remark(text);
        }
    }

    fn note(&mut self, text: &str) {
        // If not even stderr can be written there is nobody left to tell.
        let _ = self
            .stderr
            .write_all(text.as_bytes())
            .and_then(|()| self.stderr.flush());
    }

    /// Writes to stdout as it is.
    ///
    /// # Errors
    /// As [`Output::answer`].
    pub fn print(&mut self, text: &str) -> std::io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match self
            .stdout
            .write_all(text.as_bytes())
            .and_then(|()| self.stdout.flush())
        {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            result => result,
        }
    }
}
