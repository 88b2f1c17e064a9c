//! Which tokens of a login service count.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    bank, detail,
    login_service::{ISSUER, KEYS, LoginService, ROTATED, claims, now, signed, signed_by, signed_by_second, unsigned},
    shown,
};
use crate::process::{Answer, Client, Home};

/// The bank with tokens whose keys stand in a file; `more` are lines under `jwt`.
fn with_file(more: &str) -> Home {
    let home = with_keys("jwks: jwks.json", more);
    home.write("jwks.json", KEYS);
    home
}

fn with_keys(place: &str, more: &str) -> Home {
    let home = bank("");
    // The file must be there when the configuration is read, not when it is written.
    let path = home.path("glassbox.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let jwt = format!("auth:\n  jwt:\n    issuer: {ISSUER}\n    audience: [glassbox]\n    {place}\n{more}");
    std::fs::write(&path, text.replace("auth:\n", &jwt)).unwrap();
    home
}

fn show(client: &Client, token: &str) -> Answer {
    shown(client, Some(&format!("Bearer {token}")), "GET", "/v1/sessions", "")
}

fn assert_refused(client: &Client, name: &str, token: &str, word: &str) {
    let answer = show(client, token);
    assert_eq!(answer.status, 401, "{name}: {answer:?}");
    assert!(detail(&answer).contains(word), "{name}: {answer:?}");
    assert!(answer.header("www-authenticate").unwrap().contains("error=\"invalid_token\""), "{name}: {answer:?}");
}

#[test]
fn every_rule_of_a_token_counts() {
    let home = with_file("    leeway: 30s\n");
    let server = home.serve();
    for (name, good) in [
        ("plain", claims(json!({}))),
        ("one audience of many", claims(json!({"aud": ["other", "glassbox"]}))),
        ("expired within the leeway", claims(json!({"exp": now() - 10}))),
        ("not good yet, within the leeway", claims(json!({"nbf": now() + 20}))),
    ] {
        let answer = show(&server, &signed(&good));
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
    }
    for (name, wrong, word) in [
        ("issuer", json!({"iss": "https://evil.example/"}), "another issuer"),
        ("no issuer", json!({"iss": null}), "names no issuer"),
        ("audience", json!({"aud": "other"}), "another audience"),
        ("no audience", json!({"aud": null}), "names no issuer or no audience"),
        ("expired", json!({"exp": now() - 60}), "has expired"),
        ("no end", json!({"exp": null}), "has no exp"),
        ("an end that is text", json!({"exp": "tomorrow"}), "is no number"),
        ("not good yet", json!({"nbf": now() + 120}), "not good yet"),
        ("nobody", json!({"sub": null}), "who calls"),
    ] {
        assert_refused(&server, name, &signed(&claims(wrong)), word);
    }
    let token = signed(&claims(json!({})));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let other = unsigned(&json!({"alg": "RS256", "kid": "rsa-1"}), &claims(json!({"sub": "C-002"})));
    assert_refused(&server, "changed claims", &format!("{other}.{signature}"), "does not fit");
    assert_refused(&server, "no signature", &format!("{head}."), "does not fit");
    let second = include_bytes!("../../data/auth/rsa2.pk8.der");
    assert_refused(&server, "another key", &signed_by(second, "rsa-1", &claims(json!({}))), "does not fit");
    assert_refused(&server, "unknown kid", &signed_by_second(&claims(json!({}))), "no key of the issuer");
}

#[test]
fn no_token_chooses_how_it_is_checked() {
    let home = with_file("");
    let server = home.serve();
    for name in ["none", "None", "NONE", "HS256", "HS512", "XX1"] {
        let text = unsigned(&json!({"alg": name, "kid": "rsa-1"}), &claims(json!({})));
        assert_refused(&server, name, &format!("{text}."), "algorithm");
    }
    // The public key taken for the secret of an HMAC, in each form that it comes in.
    let set: Value = serde_json::from_str(KEYS).unwrap();
    let modulus = set["keys"][0]["n"].as_str().unwrap();
    let pem = include_str!("../../data/auth/rsa_public.pem");
    let raw = BASE64_URL_SAFE_NO_PAD.decode(modulus).unwrap();
    for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), modulus.as_bytes(), &raw] {
        let text = unsigned(&json!({"alg": "HS256", "kid": "rsa-1"}), &claims(json!({})));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(text.as_bytes());
        let signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        assert_refused(&server, "HS256", &format!("{text}.{signature}"), "algorithm");
    }
    let key_of_its_own = json!({"alg": "RS256", "jwk": set["keys"][0], "jku": "http://127.0.0.1:1/", "kid": "mine"});
    let text = unsigned(&key_of_its_own, &claims(json!({})));
    assert_refused(&server, "a key in the token", &format!("{text}.AAAA"), "no key of the issuer");
    let es256 = unsigned(&json!({"alg": "ES256", "kid": "rsa-1"}), &claims(json!({})));
    assert_refused(&server, "a key of another family", &format!("{es256}.AAAA"), "no key of the issuer");
}

#[test]
fn tokens_that_another_implementation_signed_are_taken() {
    let tokens: Value = serde_json::from_str(include_str!("../../data/auth/tokens.json")).unwrap();
    let home = with_file("");
    let server = home.serve();
    for (algorithm, token) in tokens.as_object().unwrap() {
        let answer = show(&server, token.as_str().unwrap());
        assert_eq!(answer.status, 200, "{algorithm}: {answer:?}");
    }
    drop(server);
    let home = with_file("    algorithms: [ES256]\n");
    let server = home.serve();
    assert_eq!(show(&server, tokens["ES256"].as_str().unwrap()).status, 200);
    assert_refused(&server, "not in the list", tokens["RS256"].as_str().unwrap(), "not taken here");
}

#[test]
fn claims_become_the_principal_of_a_session() {
    let more = "    claims:\n      roles: realm_access.roles\n      attributes: {customer_id: bank_customer}\n";
    let home = with_file(more);
    let server = home.serve();
    let who = claims(json!({
        "sub": "user-77", "scope": "spending:read card:block", "bank_customer": "C-001",
        "realm_access": {"roles": ["offline_access", "operator"]},
    }));
    let bearer = format!("Bearer {}", signed(&who));
    let task = json!({"task": "Сколько я потратил на такси в сентябре?"}).to_string();
    let report = shown(&server, Some(&bearer), "POST", "/v1/sessions?wait=15s", &task).json();
    assert_eq!(report["answer"], "Такси в сентябре: 2 поездки, 5000 ₸.", "{report}");
    let journal = format!("/v1/sessions/{}/journal", report["session_id"].as_str().unwrap());
    let started =
        shown(&server, Some(&bearer), "GET", &journal, "").json()["facts"][0]["fact"]["session_started"].clone();
    assert_eq!(
        started["principal"],
        json!({
            "id": "user-77", "scopes": ["spending:read", "card:block"], "roles": ["operator"],
            "attributes": {"customer_id": "C-001"},
        })
    );
}

#[test]
fn rotated_keys_are_found_and_a_dead_service_keeps_the_last() {
    let service = LoginService::start(Some(KEYS));
    let home = with_keys(&format!("jwks: {}", service.url), "    jwks_pause: 0s\n");
    let server = home.serve();
    let (first, second) = (signed(&claims(json!({}))), signed_by_second(&claims(json!({}))));
    assert_eq!(service.asked(), 0, "nobody showed a token yet");
    assert_eq!((show(&server, &first).status, show(&server, &first).status), (200, 200));
    assert_eq!(service.asked(), 1, "keys that are known are kept");
    assert_refused(&server, "not yet there", &second, "no key of the issuer");
    service.show(Some(ROTATED));
    assert_eq!(show(&server, &second).status, 200);
    assert_refused(&server, "taken away", &first, "no key of the issuer");
    service.show(None);
    let asked = service.asked();
    assert_refused(&server, "unknown", &first, "no key of the issuer");
    assert!(service.asked() > asked);
    assert_eq!(show(&server, &second).status, 200, "the last keys are kept");
    service.show(Some("<html>"));
    assert_refused(&server, "nonsense", &first, "no key of the issuer");
    assert_eq!(show(&server, &second).status, 200);
}

#[test]
fn invented_key_ids_do_not_make_us_ask_again_and_again() {
    let service = LoginService::start(Some(KEYS));
    let home = with_keys(&format!("jwks: {}", service.url), "    jwks_pause: 1h\n");
    let server = home.serve();
    assert_eq!(show(&server, &signed(&claims(json!({})))).status, 200);
    for number in 0..5 {
        let key = include_bytes!("../../data/auth/rsa.pk8.der");
        let invented = signed_by(key, &format!("invented-{number}"), &claims(json!({})));
        assert_refused(&server, "invented", &invented, "no key of the issuer");
    }
    assert_eq!(service.asked(), 1);
}

#[test]
fn without_any_key_nothing_is_said_of_a_token() {
    let service = LoginService::start(None);
    let home = with_keys(&format!("jwks: {}", service.url), "    jwks_pause: 0s\n");
    let server = home.serve();
    let token = signed(&claims(json!({})));
    let answer = show(&server, &token);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")), "{answer:?}");
    assert!(detail(&answer).contains("cannot be read now"), "{answer:?}");
    service.show(Some(KEYS));
    assert_eq!(show(&server, &token).status, 200);
}
