//! The demo upstream.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::process::tollward;

/// `tollward demo-upstream`. It is killed, by its id, when the test lets go of it.
pub(crate) struct Demo {
    child: Child,
    pub(crate) url: String,
}

impl Demo {
    pub(crate) fn start() -> Self {
        let mut child = tollward()
            .args(["demo-upstream", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        let url = said.trim_end().strip_prefix("demo upstream ");
        let url = url.unwrap_or_else(|| panic!("{said:?}")).to_owned();
        Self { child, url }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
