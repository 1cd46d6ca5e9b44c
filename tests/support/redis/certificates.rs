//! An authority, a server's certificate and a client's, as files.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`: made now, gone with the value.
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    pub fn make() -> Certificates {
        let dir = TempDir::new().expect("a temporary directory");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority of a test");
        let key = KeyPair::generate().expect("randomness");
        let authority = CertifiedIssuer::self_signed(params, key).expect("good parameters");
        write(dir.path(), "ca.pem", &authority.pem());
        for name in ["server", "client"] {
            let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
            let key = KeyPair::generate().expect("randomness");
            let mut params = CertificateParams::new(names).expect("good names");
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &authority).expect("good parameters");
            write(dir.path(), &format!("{name}.pem"), &certificate.pem());
            write(dir.path(), &format!("{name}.key"), &key.serialize_pem());
        }
        Certificates { dir }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("a temporary directory");
}
