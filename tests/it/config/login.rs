//! `auth` with a login: what is refused, and what a login asks of the rest of the file.

use super::{SMALL, load, loaded, mistakes};

const HASH: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// The mistakes of the small configuration with these lines behind it, without their places;
/// perhaps none.
fn wrong(lines: &str) -> Vec<String> {
    let text = format!("{SMALL}{lines}\n");
    let found = if load(&text, &[]).is_ok() { Vec::new() } else { mistakes(&text, &[]) };
    found.iter().map(|line| line.splitn(4, ':').nth(3).unwrap_or(line).trim().to_owned()).collect()
}

/// `auth` with one more line under `jwt`.
fn jwt(line: &str) -> String {
    let plain = "issuer: https://login.example.com/, audience: [glassbox]";
    format!("auth: {{jwt: {{{plain}, {line}}}}}")
}

#[test]
fn only_signatures_by_a_private_key_are_taken() {
    let jwks = "jwks: Cargo.toml";
    let list = "must be RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA";
    assert_eq!(
        wrong(&jwt(&format!("{jwks}, algorithms: [RS256, HS256]"))),
        [format!(
            "auth.jwt.algorithms[1]: {list}, not \"HS256\": with a shared secret, whoever checks a token can make one"
        )]
    );
    let none = wrong(&jwt(&format!("{jwks}, algorithms: [none]")));
    assert!(none.len() == 1 && none[0].ends_with("a token without a signature proves nothing"), "{none:?}");
    let empty = wrong(&jwt(&format!("{jwks}, algorithms: []")));
    assert_eq!(empty, ["auth.jwt.algorithms: must name a signature such as RS256, or nobody could come in"]);
}

#[test]
fn keys_come_by_a_way_that_nobody_else_writes_on() {
    for (place, expected) in [
        ("http://login.example.com/jwks.json", "must be an https address"),
        ("http://127.0.0.1.evil.example/", "must be an https address"),
        ("https://user:secret@login.example.com/", "must not hold a credential"),
        ("nowhere.json", "the file nowhere.json cannot be read"),
        ("src", "src is no file"),
    ] {
        let found = wrong(&jwt(&format!("jwks: '{place}'")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("auth.jwt.jwks: ") && found[0].contains(expected), "{found:?}");
        assert!(!found[0].contains("secret@"), "{found:?}");
    }
    for place in ["https://login.example.com/jwks.json", "http://127.0.0.1:9000/jwks", "http://localhost/jwks"] {
        assert_eq!(wrong(&jwt(&format!("jwks: '{place}'"))), [] as [String; 0], "{place}");
    }
}

#[test]
fn a_token_must_be_for_this_service_and_of_one_issuer() {
    assert_eq!(
        wrong("auth: {jwt: {jwks: Cargo.toml}}"),
        [
            "auth.jwt.audience: must name this service as tokens do in aud; a token for another is not for this one",
            "auth.jwt.issuer: is missing",
        ]
    );
}

#[test]
fn a_key_stands_in_no_file_and_in_no_report() {
    let key = "gbx_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let found = wrong(&format!("auth: {{api_keys: {{app: {{hash: {key}, principal: {{id: C-1}}}}}}}}"));
    assert_eq!(
        found[0],
        "auth.api_keys.app.hash: must be sha256: and 64 hex digits, as `glassbox auth new-key NAME` prints it"
    );
    assert!(found.iter().all(|line| !line.contains(key)), "{found:?}");
    let twice = wrong(&format!(
        "auth: {{api_keys: {{a: {{hash: {HASH}, principal: {{id: C-1}}}}, b: {{hash: {HASH}, principal: {{id: C-2}}}}}}}}"
    ));
    assert_eq!(twice, ["auth.api_keys: a and b have one hash; make a key for each"]);
    assert_eq!(wrong("auth: {api_keys: {}}"), ["auth.api_keys: holds no key; `glassbox auth new-key NAME` makes one"]);
}

#[test]
fn mistakes_in_a_file_of_keys_name_that_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.yaml");
    std::fs::write(&path, format!("api_keys:\n  app:\n    hash: {HASH}\n    principal: {{}}\n")).expect("written");
    let found = wrong(&format!("auth: {{api_keys_file: '{}'}}", path.display()));
    assert!(
        found.iter().any(|line| line.contains(":2:3: api_keys.app.principal.id: is missing")
            || line.contains(":4:5: api_keys.app.principal.id: is missing")),
        "{found:?}"
    );
    let right = loaded(&format!("{SMALL}auth: {{api_keys_file: examples/auth/api_keys.yaml}}\n"), &[]);
    let login = right.auth.login.expect("a login");
    assert_eq!(login.api_keys.keys().collect::<Vec<_>>(), ["back_office", "web_chat"]);
    assert_eq!(login.api_keys["back_office"].principal.roles, ["approver"]);
}

#[test]
fn a_login_opens_other_addresses_and_asks_each_tool_what_it_needs() {
    let login = format!("auth: {{api_keys: {{app: {{hash: {HASH}, principal: {{id: C-1}}}}}}}}\n");
    assert_eq!(wrong(&format!("{login}server: {{listen: 0.0.0.0:8080}}")), [] as [String; 0]);
    let missing = "is missing: with a login, write what a caller must hold for it, or scopes: [] if every caller may";
    assert_eq!(
        wrong(&format!("{login}tools: {{sum: {{builtin: txn_sum}}}}\nmcp_servers: {{files: {{command: [files]}}}}")),
        [format!("tools.sum.scopes: {missing}"), format!("mcp_servers.files.scopes: {missing}")]
    );
    for declared in ["scopes: []", "scopes: [a]", "roles: [user]"] {
        assert_eq!(wrong(&format!("{login}tools: {{sum: {{builtin: txn_sum, {declared}}}}}")), [] as [String; 0]);
    }
    assert_eq!(wrong("tools: {sum: {builtin: txn_sum}}"), [] as [String; 0], "without a login nothing is asked");
}

#[test]
fn without_a_login_nobody_else_can_approve_and_nothing_can_be_protected() {
    let approvers = wrong("auth: {approvers: role}");
    assert!(approvers.len() == 1 && approvers[0].starts_with("auth.approvers: must be owner or both"), "{approvers:?}");
    assert_eq!(
        wrong("auth: {protect_ops: true}"),
        ["auth.protect_ops: needs a login: write api_keys, api_keys_file or jwt"]
    );
    assert_eq!(
        wrong("auth: {join_traces: [gateway]}"),
        ["auth.join_traces: needs a login: without one everybody is the same caller, whom nobody trusts"]
    );
}
