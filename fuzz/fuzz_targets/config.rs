//! Any bytes as a configuration: it is a policy that can be used, or every fault has its place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollward_policy::{Facts, compile, config};

fuzz_target!(|bytes: &[u8]| match compile(bytes) {
    Ok(compiled) => {
        let facts = Facts {
            tenant: Some("acme"),
            user: Some("ann"),
            path: Some("/v1/jobs/7"),
            ..Facts::default()
        };
        for facts in [facts, Facts::default()] {
            if let Ok(request) = compiled.policy.request(&facts) {
                let explained = request.explain();
                assert!(explained.charges.len() <= request.charges().iter().len());
            }
        }
    }
    Err(faults) => {
        assert!(!faults.is_empty());
        assert!(faults.len() <= config::MAX_FAULTS + 1);
        let places = faults.iter().map(|fault| &fault.place);
        assert!(
            places
                .clone()
                .all(|place| place.line > 0 && place.column > 0)
        );
        assert!(places.is_sorted_by_key(|place| (place.line, place.column)));
        assert!(faults.iter().all(|fault| !fault.to_string().contains('\0')));
    }
});
