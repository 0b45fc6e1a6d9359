//! What a restart of this process forgets, and what it does not.

use std::fmt;

use tollward_policy::config::{RedisUrl, without_credentials};
use tollward_policy::{DirectoryUrl, Settings, Warning};

/// Where counters and the directory live, as the file and the flags say together.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The Redis that counters are in; none for memory.
    pub(crate) redis: Option<RedisUrl>,
    pub(crate) directory: DirectoryUrl,
    /// Neither the file nor a flag says where the directory is.
    directory_is_unsaid: bool,
    has_admin: bool,
}

impl Kept {
    pub(crate) fn new(
        settings: &Settings,
        redis: Option<&RedisUrl>,
        directory: Option<DirectoryUrl>,
        has_admin: bool,
    ) -> Self {
        let directory = directory.or_else(|| settings.directory.url.clone());
        Self {
            redis: redis.cloned().or_else(|| settings.redis_url.clone()),
            directory_is_unsaid: directory.is_none(),
            directory: directory.unwrap_or(DirectoryUrl::Memory),
            has_admin,
        }
    }

    /// The warnings of a file, where flags have not changed what one is about.
    pub(crate) fn warnings(&self, of_file: Vec<Warning>) -> Vec<Warning> {
        let is_private = self.redis.is_some() && self.has_admin && self.directory_is_unsaid;
        let has_one = of_file.iter().any(Warning::is_of_private_directory);
        let mut warnings = of_file;
        if !is_private {
            warnings.retain(|warning| !warning.is_of_private_directory());
        } else if !has_one {
            warnings.push(Warning::of_private_directory(&Default::default()));
        }
        warnings
    }

    /// Where counters live, and what that means.
    pub(crate) fn counters(&self) -> impl fmt::Display {
        match &self.redis {
            Some(url) => format!("in Redis, {}", without_credentials(&url.to_string())),
            None => "in memory: a restart makes every bucket full again".to_owned(),
        }
    }

    /// Where tenants, users and keys live beside the file, and what that means.
    pub(crate) fn directory(&self) -> impl fmt::Display {
        match &self.directory {
            DirectoryUrl::Memory => {
                "in memory: a restart forgets tenants, users and keys that were made by the admin API; \
                 set `directory.url` or --directory to keep them"
                    .to_owned()
            }
            url => without_credentials(&url.to_string()),
        }
    }
}
