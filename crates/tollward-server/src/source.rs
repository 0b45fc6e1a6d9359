use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use tollward_policy::config::Fault;
use tollward_policy::{Compiled, compile};

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The one inside the binary.
    BuiltIn,
    /// A file, which is watched.
    File(PathBuf),
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The file was read, and these are its faults.
    Faulty(String, Vec<Fault>),
}

/// Tells whether a file is still the one that was read. What a symbolic link points to counts, so a
/// mounted directory that is swapped as a whole is noticed too.
pub(crate) type Stamp = (Option<SystemTime>, u64, u64);

const BUILT_IN: &str = include_str!("default.yaml");

impl Source {
    /// Reads and compiles the configuration.
    pub fn load(&self) -> Result<Compiled, ConfigError> {
        self.compile(&self.read()?)
    }

    /// Reads the configuration.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ConfigError> {
        match self {
            Self::BuiltIn => Ok(BUILT_IN.as_bytes().to_vec()),
            Self::File(path) => {
                fs::read(path).map_err(|error| ConfigError::Unreadable(path.clone(), error))
            }
        }
    }

    /// Compiles what was read.
    pub(crate) fn compile(&self, text: &[u8]) -> Result<Compiled, ConfigError> {
        compile(text).map_err(|faults| ConfigError::Faulty(self.to_string(), faults))
    }

    /// The file's stamp; none if there is no file or it is gone.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let Self::File(path) = self else { return None };
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let node = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let node = 0;
        Some((metadata.modified().ok(), metadata.len(), node))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in configuration"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Faulty(source, faults) => {
                for fault in faults {
                    writeln!(f, "{source}:{fault}")?;
                }
                let faults = match faults.len() {
                    1 => "1 fault".to_owned(),
                    count => format!("{count} faults"),
                };
                f.write_str(&faults)
            }
        }
    }
}

impl std::error::Error for ConfigError {}
