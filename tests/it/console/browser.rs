//! The console in a real browser: headless Chromium, led by `tests/data/console/walk.cjs`.
//!
//! Its pictures stay in `target/screenshots`, to be looked at by eye.

use std::{path::Path, process::Command};

use crate::{
    auth::{bank, key},
    process::{Home, have},
    real_parts::shelf,
};

/// The bank, whose block of the card waits for a person; one that is given a single step; an agent that takes its time; one whose
/// model and tool try to get out of the page.
const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: bank, language: ru, tools: [txn_sum, card_block], task_types: [spending, card], limits: {token_budget: 50000}}
  hasty: {system_prompt: Hello., model: bank, language: ru, tools: [txn_sum], task_types: [hasty], limits: {max_iterations: 1, token_budget: 50000}}
  slow: {system_prompt: Wait., model: slow, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
  hostile: {system_prompt: Beware., model: hostile, language: en, tools: [shout], task_types: [other], limits: {token_budget: 50000}}
models:
  bank: {provider: scripted, script: bank, prices: {input: 3, output: 15}}
  slow: {provider: scripted, script: slow.yaml}
  hostile: {provider: scripted, script: hostile.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
  card_block: {builtin: card_block, scopes: [card:block], confirm: suspend}
  shout: {description: Says something., effect: read, command: {argv: [cat, shout.txt], cwd: .}, scopes: []}
llm_retry_policy: {max_attempts: 3, initial_delay_ms: 200}
auth: {default_principal: {id: C-001, scopes: [spending:read, card:block]}}
console: {links: {trace: 'http://127.0.0.1:16686/trace/{trace_id}', dashboard: 'http://127.0.0.1:3000/d/glassbox-overview?var-agent={agent}'}}
";

const SLOW: &str = "
name: slow
rules:
  - when: {step: 1, task_matches: stumble}
    fault: {kind: overloaded, times: 1}
    delay: 300ms
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - when: {step: 1}
    delay: 700ms
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - delay: 1s
    text: Two rides, 5000 tenge.
";

const HOSTILE: &str = "
name: hostile
rules:
  - when: {step: 1}
    call: {tool: shout, arguments: {}}
  - text: \"<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'><a href='javascript:window.hacked = 3'>click</a></pre></details>\"
";

const SHOUT: &str = "</pre><svg onload=\"window.hacked = 4\"></svg><style>body { display: none }</style>\u{202e}gnp.exe <!-- {{ 7 * 7 }}";

fn home() -> Home {
    let home = Home::configured(CONFIG);
    for (name, text) in [("slow.yaml", SLOW), ("hostile.yaml", HOSTILE), ("shout.txt", SHOUT)] {
        home.write(name, text);
    }
    home
}

#[test]
fn a_person_works_with_it_in_a_real_browser() {
    let Some(playwright) = shelf("playwright-core-1.65.1") else { return };
    if !have("node") || !have("chromium") {
        return;
    }
    let (open, login) = (home(), bank(""));
    let (open, login) = (open.serve(), login.serve());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut walk = Command::new("node");
    walk.arg(root.join("tests/data/console/walk.cjs"))
        .env("PLAYWRIGHT", playwright.join("node_modules/playwright-core"))
        .env("OPEN", format!("http://{}", open.address()))
        .env("LOGIN", format!("http://{}", login.address()))
        .env("KEY", key("operator"))
        .env("USER_KEY", key("other"))
        .env("SCREENSHOTS", root.join("target/screenshots"));
    // It gives itself up where it takes too long.
    let walked = walk.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&walked.stdout), String::from_utf8_lossy(&walked.stderr));
    assert!(walked.status.success() && out.trim_end().ends_with("walked"), "{out}\n{err}");
}
