//! The command line without a server: `check-config`, `explain`, help and mistakes.

use std::fs;

use serde_json::Value;

use crate::process::{arg, run};
use crate::served::{Folder, example};

const FIVE_FAULTS: &str = "\
plans:
  free: { rate_limit: { sustained: { rate: 0 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 10, window: fortnight } } }
limts: {}
routes:
  - { match: /a, cost: -1 }
enforcement: maybe
";

#[test]
fn every_fault_is_reported_with_its_place() {
    let folder = Folder::new();
    let file = folder.write("five.yaml", FIVE_FAULTS);
    let said = run(&["check-config", arg(&file)]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.err, "");
    let lines: Vec<_> = said.out.lines().collect();
    let expected = [
        (2, 44, "plans.free.rate_limit.sustained.rate", "0"),
        (3, 55, "plans.pro.rate_limit.sustained.window", "fortnight"),
        (4, 1, "limts", "limits"),
        (6, 24, "routes[0].cost", "-1"),
        (7, 14, "enforcement", "maybe"),
    ];
    assert_eq!(lines.len(), expected.len(), "{}", said.out);
    for (line, (row, column, path, word)) in lines.iter().zip(expected) {
        let place = format!("{}:{row}:{column}: {path}: ", file.display());
        assert!(line.starts_with(&place), "{place}\n{line}");
        assert!(line[place.len()..].contains(word), "{word}: {line}");
    }
}

#[test]
fn a_mistyped_tenant_is_a_fault_that_names_the_right_one() {
    let folder = Folder::new();
    let hash = "ab".repeat(32);
    for (list, place) in [
        (
            format!("keys: [ {{ sha256: {hash}, tenant: acmee }} ]"),
            "keys[0].tenant",
        ),
        ("allow: [ { tenant: acmee } ]".to_owned(), "allow[0].tenant"),
        ("deny: [ { tenant: acmee } ]".to_owned(), "deny[0].tenant"),
    ] {
        let text = format!("tenants: {{ acme: {{}}, other: {{}} }}\n{list}\n");
        let file = folder.write("mistyped.yaml", &text);
        let said = run(&["check-config", arg(&file)]);
        assert_eq!((said.code, &*said.err), (Some(1), ""), "{}", said.out);
        for words in [place, "`acmee`", "did you mean `acme`?", ":2:"] {
            assert!(said.out.contains(words), "{words}: {}", said.out);
        }
        let right = folder.write("right.yaml", &text.replace("acmee", "acme"));
        let said = run(&["check-config", arg(&right)]);
        // An entry of a list or a key that is right is valid, with or without warnings.
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    }
}

#[test]
fn a_budget_that_is_exceeded_is_told_with_what_is_free() {
    let folder = Folder::new();
    let file = folder.write(
        "budget.yaml",
        "
tenants:
  partner:
    rate_limit:
      sustained: { rate: 100, window: minute }
      sharing: enforce
      budget: { mode: allocated, total: 100 }
  a: { parent: partner, rate_limit: { sustained: { rate: 70, window: minute } } }
  b: { parent: partner, rate_limit: { sustained: { rate: 60, window: minute } } }
",
    );
    let said = run(&["check-config", arg(&file)]);
    assert_eq!((said.code, &*said.err), (Some(1), ""));
    for words in [
        "tenants.partner.rate_limit.budget",
        "sum is 130 of a budget of 100",
        "30 was free for `b`",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
}

#[test]
fn serving_a_faulty_file_reports_the_same() {
    let folder = Folder::new();
    let file = folder.write("five.yaml", FIVE_FAULTS);
    for command in ["serve", "explain"] {
        let said = run(&[command, "--config", arg(&file)]);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{command}");
        for place in [":2:44:", ":3:55:", ":4:1:", ":6:24:", ":7:14:", "5 faults"] {
            assert!(said.err.contains(place), "{command} {place}: {}", said.err);
        }
    }
}

#[test]
fn examples_are_valid() {
    for (name, limits) in [("ai-api", 3), ("ecommerce", 8), ("oauth-video", 4)] {
        let file = example(&format!("{name}.yaml"));
        let said = run(&["check-config", arg(&file)]);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{}", said.out);
        assert!(
            said.out.contains(&format!("valid, {limits} limits")),
            "{}",
            said.out
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let missing = folder.0.join("missing.yaml");
    for args in [
        &["check-config", arg(&missing)][..],
        &["serve", "--config", arg(&missing)],
        &["explain", "--config", arg(&missing)],
        &["check-config", arg(&folder.0)],
    ] {
        let said = run(args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert!(
            said.err.starts_with("tollward: cannot read "),
            "{}",
            said.err
        );
        assert!(said.err.contains(args[args.len() - 1]), "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn bytes_that_are_no_text_are_a_fault() {
    let folder = Folder::new();
    let file = folder.0.join("binary.yaml");
    fs::write(&file, b"plans: \xff\xfe\0\0").unwrap();
    let said = run(&["check-config", arg(&file)]);
    assert_eq!((said.code, &*said.err), (Some(1), ""), "{}", said.out);
    assert!(said.out.contains("binary.yaml:1:"), "{}", said.out);
}

#[test]
fn the_schema_is_json() {
    let said = run(&["check-config", "--schema"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let schema: Value = serde_json::from_str(&said.out).unwrap();
    assert!(schema["$schema"].is_string());
    for section in ["plans", "limits", "routes", "listen"] {
        assert!(schema.to_string().contains(section), "{section}");
    }
}

#[test]
fn explain_says_which_limits_apply_and_why() {
    let file = example("ecommerce.yaml");
    let request = ["--user", "u1", "-X", "GET", "--path", "/API/v1/payments/7"];
    let explain = ["explain", "--config", arg(&file)];
    let said = run(&[&explain[..], &request, &["--cost", "2"]].concat());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    for words in [
        "route      /api/v1/payments/**",
        "plan       free  (identity.anonymous.plan)",
        "treatment  limited",
        "limit:system",
        "plan:free",
        "route:/api/v1/payments/**",
        "rate      10 per 60 s",
        "capacity  15",
        "user \"u1\"",
        "line ",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert!(!said.out.contains("per-ip"), "{}", said.out);

    let said = run(&[&explain[..], &request, &["--json"]].concat());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let explanation: Value = serde_json::from_str(&said.out).unwrap();
    let charges = explanation["charges"].as_array().unwrap();
    let names: Vec<_> = charges
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["limit:system", "plan:free", "route:/api/v1/payments/**"]
    );
    assert_eq!(charges[2]["capacity"]["value"], 15);
}

#[test]
fn explain_says_what_stands_in_for_a_missing_fact() {
    let file = example("oauth-video.yaml");
    let token = ["explain", "--config", arg(&file), "--path", "/oauth/token"];
    let said = run(&[&token[..], &["--ip", "192.0.2.7"]].concat());
    assert!(
        said.out
            .contains("client: not known, ip \"192.0.2.7\" stands in"),
        "{}",
        said.out
    );
    let said = run(&token);
    assert!(said.out.contains("one bucket for all such"), "{}", said.out);
    let said = run(&["explain", "--config", arg(&file), "--path", "/else"]);
    assert!(said.out.contains("no limit applies"), "{}", said.out);
}

#[test]
fn explain_refuses_what_the_server_would() {
    for (args, word) in [
        (["--plan", "gold"], "there is no plan \"gold\""),
        (["--path", "/a%2Fb"], "%2F"),
        (["--api-key", "guess"], "not known"),
        (["--method", "GE T"], "method"),
        (["--ip", "localhost"], "--ip"),
        (["--cost", "-1"], "--cost"),
        (["--cost", "4294967296"], "--cost"),
        (["--cost", "1.5"], "--cost"),
    ] {
        let said = run(&["explain", args[0], args[1]]);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert!(said.err.contains(word), "{word}: {}", said.err);
        assert!(
            !said.err.contains("guess"),
            "keys are not repeated: {}",
            said.err
        );
    }
}

#[test]
fn a_wrong_flag_is_answered_with_the_right_one() {
    for (args, right) in [
        (&["serve", "--confg", "x"][..], "--config"),
        (&["serve", "--apii", "127.0.0.1:0"], "--api"),
        (&["explain", "--usr", "a"], "--user"),
        (&["check-confg", "x"], "check-config"),
        (&["check", "--peak"], "--peek"),
    ] {
        let said = run(args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert!(said.err.contains(right), "{right}: {}", said.err);
    }
    for (args, word) in [
        (&["serve", "--api", "localhost"][..], "--api"),
        (&["serve", "--api", "127.0.0.1"], "--api"),
        (&["serve", "--drain", "soon"], "--drain"),
        (&["check-config"], "FILE"),
        (&[], "Usage"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains(word), "{word}: {}", said.err);
    }
}

#[test]
fn every_command_has_help() {
    let said = run(&["--help"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    for command in ["serve", "check-config", "explain", "check"] {
        assert!(said.out.contains(command), "{command}");
        for help in ["--help", "-h"] {
            let said = run(&[command, help]);
            assert_eq!((said.code, &*said.err), (Some(0), ""), "{command}");
            assert!(said.out.contains("Usage: tollward "), "{}", said.out);
            let options = said.out.lines().filter(|line| line.contains("--"));
            assert!(options.count() >= 2, "{}", said.out);
        }
    }
    let said = run(&["--version"]);
    assert_eq!(
        said.out,
        format!("tollward {}\n", env!("CARGO_PKG_VERSION"))
    );
}
