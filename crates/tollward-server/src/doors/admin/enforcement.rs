//! The kill switch.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollward_directory::Setting;
use tollward_policy::config::Enforcement;
use utoipa::ToSchema;

use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Operate, Read};
use super::input::Body;
use super::precondition::IfMatch;
use super::source::Origin;
use super::work::{Changed, Work};

/// The setting's name in the directory.
const SETTING: &str = "enforcement";
/// The setting's value where the file decides.
const FILE: &str = "file";

/// Whether limits refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = EnforcementMode)]
pub(super) enum Mode {
    /// They do.
    On,
    /// They count what they would refuse, and refuse nothing.
    Shadow,
    /// Nothing is limited, and nothing counted.
    Off,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::On, Self::Shadow, Self::Off]
            .into_iter()
            .find(|mode| mode.word() == word)
    }
}

impl From<Enforcement> for Mode {
    fn from(enforcement: Enforcement) -> Self {
        match enforcement {
            Enforcement::On => Self::On,
            Enforcement::Shadow => Self::Shadow,
            Enforcement::Off => Self::Off,
        }
    }
}

/// What is to hold.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEnforcement {
    /// What is to hold on all nodes; null for what the configuration file says.
    mode: Option<Mode>,
}

/// Whether limits refuse, and who says so.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Enforcement)]
pub(super) struct View {
    /// What holds on this node now.
    mode: Mode,
    /// What the configuration file says.
    file: Mode,
    /// Who says what holds.
    source: Origin,
    /// The version, for `If-Match`: 0 before the first change.
    version: i64,
}

impl View {
    fn new(shared: &Shared, setting: Option<&Setting>) -> Self {
        let file = shared.engine.active().policy().file_enforcement().into();
        let said = setting.and_then(|setting| Mode::of(&setting.value));
        Self {
            mode: said.unwrap_or(file),
            file,
            source: match said {
                Some(_) => Origin::Directory,
                None => Origin::File,
            },
            version: setting.map_or(0, |setting| setting.version),
        }
    }
}

/// Shows whether limits refuse
///
/// It is answered from memory, whatever became of the directory.
#[utoipa::path(get, path = "/admin/v1/enforcement", tag = "enforcement",
    responses((status = 200, description = "What holds on this node", body = View)))]
pub(super) async fn show_enforcement(
    _: By<Read>,
    State(shared): State<Shared>,
) -> Result<Answer, Failure> {
    let setting = shared.mirror.setting(SETTING);
    Answer::ok(&View::new(&shared, setting.as_ref()))
}

/// Turns limits on, to shadow or off
///
/// It holds on all nodes within a second, and until it is changed again, whatever the configuration file says.
#[utoipa::path(put, path = "/admin/v1/enforcement", tag = "enforcement", request_body = NewEnforcement,
    responses((status = 200, description = "What holds now", body = View)))]
pub(super) async fn set_enforcement(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    expected: IfMatch,
    body: Body<NewEnforcement>,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(&shared, caller).await?;
    let before = work.edit.setting(SETTING).await?;
    expected.check(before.as_ref().map_or(0, |setting| setting.version))?;
    // A row that stays, so that no version comes twice.
    let said = body.value.mode.map_or(FILE, Mode::word);
    let setting = Setting {
        name: SETTING.to_owned(),
        value: said.to_owned(),
        version: before.as_ref().map_or(0, |setting| setting.version),
        ..Setting::default()
    };
    let after = work.edit.put_setting(setting).await?;
    let before = before.map_or_else(|| FILE.to_owned(), |setting| setting.value);
    work.record(Changed {
        event: "enforcement_changed",
        identifier: SETTING.to_owned(),
        before: Some(json!({ "mode": before })),
        after: Some(json!({ "mode": after.value })),
    });
    let answer = Answer::ok(&View::new(&shared, Some(&after)))?;
    work.commit(answer).await
}
