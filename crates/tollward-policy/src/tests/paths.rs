//! Every known way of writing a path so that two servers read it differently.

use super::{policy, route_of_path};
use crate::PathFault::{
    self, Backslash, BadEscape, Control, DoubledSlash, EncodedSlash, Fragment, Parameters,
    Relative, TooLong, Unresolved,
};
use crate::{Facts, MAX_PATH, Policy, Rejection};

pub(super) const ROUTES: &str = "
routes:
  - { match: /v1/chat/completions, cost: 5 }
  - { match: /admin/**, deny: true }
  - { match: /api/*/orders, cost: 2 }
  - { match: /**, cost: 3 }
";

const CHAT: Result<&str, PathFault> = Ok("/v1/chat/completions");
const ADMIN: Result<&str, PathFault> = Ok("/admin/**");
const ORDERS: Result<&str, PathFault> = Ok("/api/*/orders");
const REST: Result<&str, PathFault> = Ok("/**");

#[track_caller]
fn assert_routes(policy: &Policy, table: &[(&str, Result<&str, PathFault>)]) {
    for (path, expected) in table {
        let expected = expected.map(Some).map_err(Rejection::Path);
        assert_eq!(route_of_path(policy, path), expected, "{path:?}");
    }
}

#[test]
fn slashes_and_dots() {
    let table = [
        ("/v1/chat/completions", CHAT),
        ("//v1/chat/completions", CHAT),
        ("/v1//chat///completions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1/chat/completions//", CHAT),
        ("/v1/./chat/completions", CHAT),
        ("/./v1/chat/./completions/.", CHAT),
        ("/v1/x/../chat/completions", CHAT),
        ("/v1/chat/completions/x/..", CHAT),
        ("/v1/chat/completions/x/../", CHAT),
        ("/../v1/chat/completions", CHAT),
        ("/../../v1/chat/completions", CHAT),
        ("/v1/chat/completions/..", REST),
        ("/v1/chat/completions/...", REST),
        ("/v1/chat/.completions", REST),
        ("/v1/chat/completions/x", REST),
        ("/", REST),
        ("//", REST),
        ("/.", REST),
        ("/..", REST),
        ("/../../x", REST),
        ("/admin", ADMIN),
        ("/admin/", ADMIN),
        ("/x/../admin", ADMIN),
        ("/x/./../admin/./y", ADMIN),
        ("/../admin/users", ADMIN),
        ("//admin", ADMIN),
        ("/admin/../x", REST),
        ("/admin/x/../../y", REST),
        ("/adminx", REST),
        ("/xadmin", REST),
        // One server takes back `admin`, another the nothing between the slashes.
        ("/admin//../x", Err(DoubledSlash)),
        ("/x//../admin", Err(DoubledSlash)),
        ("/admin//..", Err(DoubledSlash)),
        ("/x//../y", REST),
        ("/admin//x/../y", ADMIN),
        ("//../admin", ADMIN),
        ("/api/7/orders", ORDERS),
        ("/api//7//orders/", ORDERS),
        ("/api//orders", REST),
        ("/api/./orders", REST),
        ("/api/x/../7/orders", ORDERS),
        ("/api/7/orders/9", REST),
    ];
    assert_routes(&policy(ROUTES), &table);
}

#[test]
fn escapes_and_case() {
    let table = [
        ("/v1/chat/%63ompletions", CHAT),
        ("/v1/chat/%43ompletions", CHAT),
        ("/%76%31/%63%68%61%74/completions", CHAT),
        ("/V1/Chat/COMPLETIONS", CHAT),
        ("/v1/%2e/chat/completions", CHAT),
        ("/v1/x/%2e%2e/chat/completions", CHAT),
        ("/v1/x/%2E%2e/chat/completions", CHAT),
        ("/v1/x/.%2E/chat/completions", CHAT),
        ("/v1/x/%2e./chat/completions", CHAT),
        ("/%61dmin", ADMIN),
        ("/ADMIN/x", ADMIN),
        ("/%41%44%4d%49%4E", ADMIN),
        ("/x/%2e%2e/admin", ADMIN),
        ("/%2e%2e/%2E/admin", ADMIN),
        ("/admin%2Fx", Err(EncodedSlash)),
        ("/admin%2fx", Err(EncodedSlash)),
        ("/x%2F..%2Fadmin", Err(EncodedSlash)),
        ("/%2Fadmin", Err(EncodedSlash)),
        ("/admin%5Cx", Err(Backslash)),
        ("/admin%5cx", Err(Backslash)),
        ("/admin\\x", Err(Backslash)),
        ("/x\\..\\admin", Err(Backslash)),
        ("/\\admin", Err(Backslash)),
        ("/admin%", Err(BadEscape)),
        ("/admin%2", Err(BadEscape)),
        ("/admin%zz", Err(BadEscape)),
        ("/admin%2z", Err(BadEscape)),
        ("/admin%z2", Err(BadEscape)),
        ("/admin%+2", Err(BadEscape)),
        ("/%u002e%u002e/admin", Err(BadEscape)),
        ("/admin%%61", Err(BadEscape)),
        ("/admin%é", Err(BadEscape)),
        ("/%%2e%2e", Err(BadEscape)),
        // Decoded once these are plain text, and no server may decode twice.
        ("/x/%252e%252e/admin", REST),
        ("/%2561dmin", REST),
        ("/admin%252Fx", REST),
        ("/admin/%252e%252e", ADMIN),
        ("/v1/chat/completions%20", REST),
        ("/v1/chat/completions ", REST),
        ("/api/a b/orders", ORDERS),
        ("/api/a%20b/orders", ORDERS),
        ("/api/%C3%A9/orders", ORDERS),
        ("/api/é/orders", ORDERS),
        ("/api/%ff%fe/orders", ORDERS),
        ("/api/%c0%ae%c0%ae/orders", ORDERS),
        ("/ädmin", REST),
        ("/api/*/orders", ORDERS),
        ("/api/**/orders", ORDERS),
        ("/api/%2A/orders", ORDERS),
        ("/*", REST),
        ("/**", REST),
        ("/admin/**", ADMIN),
    ];
    assert_routes(&policy(ROUTES), &table);
}

#[test]
fn control_characters_queries_and_fragments() {
    let table = [
        ("/admin\0", Err(Control)),
        ("/admin%00", Err(Control)),
        ("/admin%00.png", Err(Control)),
        ("/admin\t", Err(Control)),
        ("/admin%09", Err(Control)),
        ("/admin\r\n", Err(Control)),
        ("/admin%0d%0a", Err(Control)),
        ("/admin%0D%0AX: y", Err(Control)),
        ("/admin\u{7f}", Err(Control)),
        ("/admin%7f", Err(Control)),
        ("/admin\u{1f}", Err(Control)),
        ("/admin?x", ADMIN),
        ("/admin/?/../../x", ADMIN),
        ("/v1/chat/completions?", CHAT),
        ("/v1/chat/completions?a=%zz\\&b=\0#c", CHAT),
        ("/x?/../admin", REST),
        ("/admin%3Fx", REST),
        ("/admin%3fx", REST),
        ("/admin/%3F", ADMIN),
        ("/admin#x", Err(Fragment)),
        ("/admin#", Err(Fragment)),
        ("/x#?y", Err(Fragment)),
        ("/admin%23x", REST),
        ("/admin/%23", ADMIN),
    ];
    assert_routes(&policy(ROUTES), &table);
}

#[test]
fn parameters() {
    let table = [
        ("/admin;x", Err(Parameters)),
        ("/admin;", Err(Parameters)),
        ("/admin%3b", Err(Parameters)),
        ("/admin%3Bx=1", Err(Parameters)),
        ("/admin;x/y", Err(Parameters)),
        ("/x/..;/admin", Err(Parameters)),
        ("/x/..;a=b/admin", Err(Parameters)),
        ("/x/..%3b/admin", Err(Parameters)),
        ("/x/%2e%2e%3B/admin", Err(Parameters)),
        ("/x/.;/../admin", Err(Parameters)),
        ("/;/admin", Err(Parameters)),
        ("/;x/v1/chat/completions", Err(Parameters)),
        ("/v1/chat/completions;x", Err(Parameters)),
        ("/v1/chat;x/completions", Err(Parameters)),
        ("/v1;/chat/completions", Err(Parameters)),
        ("/v1/chat/completions/;x", Err(Parameters)),
        ("/admin/..;/x", Err(Parameters)),
        ("/admin/;/../x", Err(Parameters)),
        // A server that drops parameters before it decodes goes back once, and then sees a name.
        ("/y/..;/admin/..%3b/z", Err(Parameters)),
        // The same route whichever way it is read.
        ("/admin/x;y", ADMIN),
        ("/admin/x%3by/z", ADMIN),
        ("/api/7;v=1/orders", ORDERS),
        ("/api/7%3Bv=1/orders", ORDERS),
        ("/cars;colour=red", REST),
        ("/cars;colour=red/wheels;size=3", REST),
        ("/x/..;/y", REST),
        ("/y/..%3b/admin/..;/z", REST),
    ];
    assert_routes(&policy(ROUTES), &table);
}

#[test]
fn what_is_no_path() {
    let policy = policy(ROUTES);
    let longest = format!("/admin/{}", "x".repeat(MAX_PATH - 7));
    let too_long = format!("{longest}x");
    let long_query = format!("/admin?{}", "x".repeat(3 * MAX_PATH));
    let deep = format!("{}/../admin", "/x".repeat(2000));
    let table = [
        ("admin", Err(Relative)),
        ("*", Err(Relative)),
        ("?x", Err(Relative)),
        ("./admin", Err(Relative)),
        ("../admin", Err(Relative)),
        ("%2Fadmin", Err(Relative)),
        ("\\admin", Err(Relative)),
        (" /admin", Err(Relative)),
        ("http://example.com/admin", Err(Relative)),
        ("example.com:443", Err(Relative)),
        (&longest, ADMIN),
        (&too_long, Err(TooLong)),
        (&long_query, ADMIN),
        (&deep, REST),
    ];
    assert_routes(&policy, &table);
    // No path at all is a fact that is missing, not a path that is wrong.
    assert_eq!(route_of_path(&policy, ""), Ok(None));
    let nothing = policy.request(&Facts::default()).unwrap();
    assert!(nothing.route.is_none());
}

#[test]
fn options_of_paths() {
    let text = format!("paths: {{ case: keep, encoded_slash: keep }}{ROUTES}");
    let table = [
        ("/admin/x", ADMIN),
        ("/ADMIN/x", REST),
        ("/%61dmin", ADMIN),
        ("/%41dmin", REST),
        ("/admin%2Fx", REST),
        ("/admin%2fx", REST),
        ("/api/a%2Fb/orders", ORDERS),
        ("/x%2F..%2Fadmin", REST),
        ("/admin%5Cx", Err(Backslash)),
    ];
    assert_routes(&policy(&text), &table);

    let text = "
paths: { encoded_slash: keep }
routes: [{ match: /files/a%2fB }, { match: /x/é }, { match: /y/%C3%a9 }, { match: /z/%7Ea }]
";
    let table = [
        ("/files/a%2Fb", Ok("/files/a%2Fb")),
        ("/FILES/A%2fb", Ok("/files/a%2Fb")),
        ("/x/%c3%a9", Ok("/x/%C3%A9")),
        ("/x/é", Ok("/x/%C3%A9")),
        ("/y/é", Ok("/y/%C3%A9")),
        ("/z/~A", Ok("/z/~a")),
    ];
    assert_routes(&policy(text), &table);
    assert_eq!(route_of_path(&policy(text), "/files/a/b"), Ok(None));
}

#[test]
fn what_is_served_as_it_was_sent() {
    const UNRESOLVED: Result<&str, PathFault> = Err(Unresolved);
    let policy = policy(ROUTES);
    for (path, expected) in [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1/chat/completions?a=//..", CHAT),
        ("/v1/chat/.completions..", REST),
        ("/", REST),
        // Another route, if something stays that we resolve.
        ("/v1/x/../chat/completions", UNRESOLVED),
        ("/v1/%2e/chat/completions", UNRESOLVED),
        ("/v1/chat/completions/.", UNRESOLVED),
        ("/v1/chat/completions/x/..", UNRESOLVED),
        ("//v1/chat/completions", UNRESOLVED),
        ("/v1//chat/completions", UNRESOLVED),
        ("/v1/chat/completions//", UNRESOLVED),
        ("/admin/../x", UNRESOLVED),
        ("/x/../admin", UNRESOLVED),
        ("//admin", UNRESOLVED),
        ("/api/7/../orders", REST),
        ("/api//orders", UNRESOLVED),
        ("/api/./orders", UNRESOLVED),
        ("/api/x/../7/orders", UNRESOLVED),
        // Only if one of the two stays.
        ("/api//../orders", UNRESOLVED),
        ("/api/x//../orders", Err(DoubledSlash)),
        // The same route whatever stays.
        ("/admin/x/../y", ADMIN),
        ("/admin//x/./y", ADMIN),
        ("/x//y/../z", REST),
        ("//", REST),
        ("/..", REST),
        // Parameters may hide what is to be resolved.
        ("/admin/..;a/y", Err(Parameters)),
        ("/admin/x/..;a/y", ADMIN),
        ("/x/;a/y", REST),
    ] {
        let facts = Facts {
            path: Some(path),
            path_is_kept: true,
            ..Facts::default()
        };
        let request = policy.request(&facts);
        let route = request.map(|request| request.route());
        let expected = expected.map(Some).map_err(Rejection::Path);
        assert_eq!(route, expected, "{path:?}");
    }
}
