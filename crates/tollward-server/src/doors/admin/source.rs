use serde::Serialize;
use utoipa::ToSchema;

/// Where an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Source)]
pub(super) enum Origin {
    /// In the configuration file: it can be changed only there.
    File,
    /// In the directory.
    Directory,
    /// Nowhere: it is always there.
    BuiltIn,
}
