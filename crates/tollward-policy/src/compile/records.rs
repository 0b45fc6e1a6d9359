use std::time::Duration;

use super::{AccessLog, Compiler, word};
use crate::config::{self, DirectoryUrl, File, Stale};

const DAY: Duration = Duration::from_secs(86_400);

/// Where tenants, users and keys live beside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySettings {
    /// The database; none for the memory of this process. `--directory` brings another.
    pub url: Option<DirectoryUrl>,
    /// How long what was last read of it holds while it cannot be reached.
    pub max_stale: Duration,
    /// Whether its API keys are refused after that.
    pub refuse_stale: bool,
}

/// What is written of refusals and changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Where they go as lines of JSON, besides the directory.
    pub log: AccessLog,
    /// How long refusals of one caller by one limit are one event.
    pub interval: Duration,
    /// How long the directory keeps events.
    pub retention: Duration,
}

/// How use is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSettings {
    /// How often sums are written to the directory.
    pub interval: Duration,
    /// How long the sums of a minute are kept.
    pub minute: Duration,
    /// How long the sums of an hour are kept.
    pub hour: Duration,
    /// How long the sums of a day are kept.
    pub day: Duration,
}

impl Default for DirectorySettings {
    fn default() -> Self {
        Self {
            url: None,
            max_stale: Duration::from_secs(600),
            refuse_stale: false,
        }
    }
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            log: AccessLog::Off,
            interval: Duration::from_secs(60),
            retention: 90 * DAY,
        }
    }
}

impl Default for UsageSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            minute: 2 * DAY,
            hour: 60 * DAY,
            day: 800 * DAY,
        }
    }
}

pub(super) fn directory(file: &File) -> DirectorySettings {
    let default = DirectorySettings::default();
    let Some(directory) = &file.directory else {
        return default;
    };
    DirectorySettings {
        url: directory.url.as_ref().map(|url| url.value.clone()),
        max_stale: word(directory.max_stale.as_ref()).unwrap_or(default.max_stale),
        refuse_stale: word(directory.stale.as_ref()) == Some(Stale::Refuse),
    }
}

pub(super) fn usage(file: &File) -> UsageSettings {
    let default = UsageSettings::default();
    let usage = file.usage.as_ref();
    let kept = usage.and_then(|usage| usage.retention.as_ref());
    UsageSettings {
        interval: word(usage.and_then(|usage| usage.interval.as_ref())).unwrap_or(default.interval),
        minute: word(kept.and_then(|kept| kept.minute.as_ref())).unwrap_or(default.minute),
        hour: word(kept.and_then(|kept| kept.hour.as_ref())).unwrap_or(default.hour),
        day: word(kept.and_then(|kept| kept.day.as_ref())).unwrap_or(default.day),
    }
}

impl Compiler {
    pub(super) fn audit(&mut self, file: &File) -> AuditSettings {
        let default = AuditSettings::default();
        let Some(audit) = &file.audit else {
            return default;
        };
        let gateway = file.gateway.as_ref();
        let access_log = gateway.and_then(|gateway| gateway.access_log.as_ref());
        if let (Some(log), Some(other)) = (&audit.log, access_log)
            && matches!(log.value, config::AccessLog::File(_))
            && log.value == other.value
        {
            // Each has a writer of its own, and their lines would get into each other.
            let message = "the same file as `gateway.access_log`";
            self.fault(&log.place, message, "write another");
        }
        AuditSettings {
            log: AccessLog::of(audit.log.as_ref()),
            interval: word(audit.interval.as_ref()).unwrap_or(default.interval),
            retention: word(audit.retention.as_ref()).unwrap_or(default.retention),
        }
    }
}
