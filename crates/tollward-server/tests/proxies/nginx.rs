//! What nginx alone can get wrong.

use crate::recipe::Proxy;
use crate::site::{ACME, Site, key};

#[test]
fn the_door_is_not_reached_by_its_name() {
    let Some(site) = Site::start(Proxy::Nginx) else {
        return;
    };
    assert_eq!(site.get("/_tollward", &key(ACME)).status, 404);
    assert_eq!(site.passed(), 0);
}
