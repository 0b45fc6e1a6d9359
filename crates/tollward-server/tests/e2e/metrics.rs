//! `/metrics`, as OpenMetrics has it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::served::Served;

const CONFIG: &str = "
limits:
  trial: { sustained: { rate: 1, window: day }, scope: user, shadow: true, when: authenticated }
plans:
  p: { rate_limit: { sustained: { rate: 1, window: day }, burst: { capacity: 3 }, scope: user } }
routes:
  - { match: /closed, deny: true }
  - { match: /open, allow: true }
allow: [{ user: root }]
";

/// Samples by their series, after the page was found to be well formed.
fn samples(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    assert_eq!(page.matches("# EOF").count(), 1);
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut family = "";
    let mut samples = BTreeMap::new();
    for line in page.lines().take_while(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (word, name) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE", "UNIT"].contains(&word), "{line}");
            assert!(name.starts_with("tollward_"), "{line}");
            if word == "TYPE" {
                let kind = words.next().unwrap();
                assert_eq!(kinds.insert(name, kind), None, "{name} is there twice");
            }
            family = name;
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let suffix = name
            .strip_prefix(family)
            .unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] = match kinds[family] {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{other}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        let earlier = samples.insert(series.to_owned(), value.parse().unwrap());
        assert_eq!(earlier, None, "{series} is there twice");
    }
    samples
}

fn page(served: &Served) -> BTreeMap<String, f64> {
    let response = served.admin_page("/metrics");
    assert_eq!(response.status, 200);
    let media_type = response.header("content-type").unwrap();
    assert_eq!(
        media_type,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    samples(&response.text())
}

fn decisions(samples: &BTreeMap<String, f64>, policy: &str, outcome: &str) -> f64 {
    let series = format!("tollward_decisions_total{{policy=\"{policy}\",outcome=\"{outcome}\"}}");
    samples[&series]
}

#[test]
fn counts_add_up_to_the_requests() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let by = |user: &str| json!({ "user": user, "plan": "p" });
    for _ in 0..5 {
        client.ask(by("a"));
    }
    client.ask(by("b"));
    client.ask(json!({ "user": "c", "plan": "p", "cost": 4 }));
    client.ask(json!({}));
    client.ask(json!({ "user": "root" }));
    client.ask(json!({ "path": "/closed" }));
    client.ask(json!({ "path": "/open" }));
    client.ask(json!({ "user": "a", "plan": "p", "peek": true }));
    client.ask(json!({ "plan": "gold" }));
    client.post("/v1/check", "rubbish");
    let batch = json!({ "checks": [by("a"), by("d"), { "cost": -1 }, by("d")] });
    client.post("/v1/check/batch", batch.to_string());

    let samples = page(&served);
    // a thrice, b once, d twice.
    assert_eq!(decisions(&samples, "plan:p", "allowed"), 6.0);
    // a twice and once more in the batch, c once.
    assert_eq!(decisions(&samples, "plan:p", "denied"), 4.0);
    // Nobody, root and the open route.
    assert_eq!(decisions(&samples, "none", "allowed"), 3.0);
    assert_eq!(decisions(&samples, "none", "denied"), 1.0);
    // One a day: the second and third of a, the second of d.
    assert_eq!(decisions(&samples, "limit:trial", "shadow_denied"), 3.0);
    let total = |outcome: &str| {
        let series = samples
            .iter()
            .filter(|(series, _)| series.contains(outcome));
        series.map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(
        total("outcome=\"allowed\"") + total("outcome=\"denied\""),
        14.0
    );
    // a, b and d, each in the plan and in the trial.
    assert_eq!(samples["tollward_buckets"], 6.0);
}

#[test]
fn the_histogram_is_cumulative() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    for user in 0..50 {
        client.ask(json!({ "user": format!("{user}"), "plan": "p" }));
    }
    let samples = page(&served);
    let prefix = "tollward_decision_duration_seconds_bucket{le=\"";
    let mut buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|(series, count)| {
            let bound = series.strip_prefix(prefix)?.trim_end_matches("\"}");
            Some((bound.parse().unwrap(), *count))
        })
        .collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(
        buckets.is_sorted_by(|one, other| one.1 <= other.1),
        "{buckets:?}"
    );
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, 50.0)));
    assert_eq!(samples["tollward_decision_duration_seconds_count"], 50.0);
}

#[test]
fn no_series_names_a_caller() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    client.ask(json!({}));
    let before: BTreeSet<String> = page(&served).into_keys().collect();
    for index in 0..1000 {
        let check = json!({
            "user": format!("user-{index}"),
            "tenant": format!("tenant-{index}"),
            "client": format!("client-{index}"),
            "ip": format!("198.51.{}.{}", index / 250, index % 250),
            "path": format!("/path-{index}"),
            "plan": "p",
        });
        assert_eq!(client.ask(check).status, 200);
        client.ask(json!({ "plan": format!("plan-{index}"), "method": format!("M{index}") }));
    }
    let response = served.admin_page("/metrics");
    let after: BTreeSet<String> = samples(&response.text()).into_keys().collect();
    assert_eq!(before, after);
    for name in [
        "user-", "tenant-", "client-", "198.51", "path-", "plan-", "M9",
    ] {
        assert!(!response.text().contains(name), "{name}");
    }
}
