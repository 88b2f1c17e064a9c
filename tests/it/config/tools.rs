//! Tools that are declared: what is read, what is written back, and what is a mistake.

use std::{collections::BTreeMap, path::Path};

use glassbox::{
    Config, Confirm, Effect,
    config::{Kind, Means},
};

use super::{SMALL, loaded, mistakes};

const VARIABLES: [(&str, &str); 3] =
    [("TOKEN", "sesame-token"), ("LEDGER_URL", "postgres://me:sesame-password@db/x"), ("PATH", "/usr/bin:/bin")];

const TOOLS: &str = r#"tools:
  rate:
    description: A rate.
    effect: read
    parameters: {type: object, properties: {currency: {type: [string, 'null'], default: null}, "a-b": {enum: [null, 1.5, yes]}}, required: [currency], additionalProperties: false}
    bind: {who: "{{principal.id}}"}
    http:
      method: POST
      url: https://rates.example/v1/{currency}
      query: {x: "{a-b}"}
      headers: {X-Key: {env: TOKEN}, x-who: "w {who}"}
      bearer: {env: TOKEN}
      json: {a: [1, "{currency}", null], "b c": {d: "{who}"}}
      result: /data/0
      failure: {pointer: /ok, equals: false, message: /error}
      max_bytes: 2KiB
  pay:
    description: Pays.
    confirm: {when: {pointer: /n, equals: {a: [1]}}, then: ask_customer}
    parameters: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
    sql: {database: {env: LEDGER_URL}, statement: "update t set n = :n where k = :idempotency_key;", write: true, max_rows: 7}
  look:
    description: Looks.
    confirm: {when: {pointer: /n, over: 10.5}}
    parameters: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
    sql: {database: data.sqlite, statement: "select :n"}
  send:
    description: Sends.
    parameters: {type: object, properties: {text: {type: string}}, additionalProperties: false}
    http: {method: PUT, url: "http://127.0.0.1:8080", form: {t: "{text}"}}
  show:
    description: Shows.
    parameters: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
    command: {argv: [/usr/bin/printf, "{{}} %s", "{n}", "{n}"], env: {A: b}, cwd: /tmp, stdin: {n: "{n}"}, output: json, exit_codes: {refused: [2], tool_error: [3]}, max_bytes: 1KiB}
"#;

#[test]
fn every_kind_is_read() {
    let config = loaded(&format!("{SMALL}{TOOLS}"), &VARIABLES);
    let means = |name: &str| match &config.tools[name].kind {
        Kind::Declared(declared) => declared.means.clone(),
        Kind::Builtin(_) => panic!("{name} is declared"),
    };
    let Means::Http(rate) = means("rate") else { panic!("a request") };
    assert_eq!((rate.method.label(), rate.address.source()), ("POST", "https://rates.example/v1/{currency}"));
    assert_eq!(rate.max_bytes, 2048);
    assert!(rate.headers.contains_key("x-key"), "names of headers are written small");
    assert_eq!(config.tools["rate"].bind["who"], "id");
    let Means::Sql(pay) = means("pay") else { panic!("a statement") };
    assert_eq!((pay.write, pay.max_rows), (true, 7));
    assert_eq!((config.tools["pay"].effect, config.tools["pay"].confirm), (Effect::Unsafe, Confirm::AskCustomer));
    assert_eq!(config.tools["look"].confirm, Confirm::Suspend, "what a rule asks for, if it says nothing");
    let Means::Command(show) = means("show") else { panic!("a program") };
    assert_eq!((show.refused, show.tool_error, show.json), (vec![2], vec![3], true));
    assert_eq!(show.inherited["PATH"], "/usr/bin:/bin");
}

#[test]
fn what_is_written_back_is_the_same_again_but_for_secrets() {
    let config = loaded(&format!("{SMALL}{TOOLS}"), &VARIABLES);
    let text = config.effective_yaml();
    assert!(!text.contains("sesame"), "{text}");
    // Where a secret stands to be pointed at, the reader asks for a pointer.
    let text = text.replace("database: \"[secret]\"", "database: {env: LEDGER_URL}");
    let text = text.replace(": \"[secret]\"", ": {env: TOKEN}");
    let again = loaded(&text, &VARIABLES);
    for (name, tool) in &config.tools {
        let mut other = again.tools[name].clone();
        if let (Kind::Declared(one), Kind::Declared(other)) = (&tool.kind, &mut other.kind)
            && let (Means::Command(one), Means::Command(other)) = (&one.means, &mut other.means)
        {
            other.env = one.env.clone();
        }
        assert_eq!(&other, tool, "{name}\n{text}");
    }
}

#[test]
fn a_program_of_ones_own_stands_beside_the_configuration() {
    let text = format!("{SMALL}tools: {{a: {{description: A., command: {{argv: [./a, b], cwd: sub}}}}}}\n");
    let config = Config::from_text("t", text.as_bytes(), Path::new("/etc/glassbox"), &BTreeMap::new()).expect("good");
    let Kind::Declared(declared) = &config.tools["a"].kind else { panic!("declared") };
    let Means::Command(plan) = &declared.means else { panic!("a program") };
    assert_eq!(plan.argv[0].fixed(), Some("/etc/glassbox/./a"));
    assert_eq!(plan.cwd, Path::new("/etc/glassbox/sub"));
}

#[test]
fn a_tool_that_only_asks_can_say_so() {
    let text = format!("{SMALL}tools: {{a: {{description: A., http: {{url: 'http://x.example'}}}}}}\n");
    let hints = loaded(&text, &[]).hints();
    assert!(hints.iter().any(|hint| hint.starts_with("tools.a.effect: it seems to read only")), "{hints:?}");
}

/// A tool without its name, and a part of the one mistake that it makes.
const TABLE: &[(&str, &str)] = &[
    ("builtin: txn_sum, http: {url: 'http://x.example'}", "must be one kind of tool, not builtin and http"),
    ("builtin: txn_sum, parameters: {}", "parameters: is for tools by http, sql or command"),
    ("builtin: txn_sum, bind: {a: '{{ principal.id }}'}", "bind: is for tools by http, sql or command"),
    ("http: {url: 'http://x.example'}", "description: is missing; it is what tells a model when to call the tool"),
    ("description: A., http: {}", "http.url: is missing"),
    ("description: A., http: {url: 'http://{x}.example/'}", "http.url: must name its host"),
    (
        "description: A., http: {url: 'http://x.example/{x}'}",
        "http: uses x, which is neither under parameters nor under bind",
    ),
    ("description: A., http: {url: 'http://x.example/{{ principal.id }}'}", "identity goes under bind"),
    ("description: A., http: {url: 'http://x.example', json: {}}", "http.json: is for POST, PUT, PATCH and DELETE"),
    (
        "description: A., http: {method: POST, url: 'http://x.example', json: {}, form: {}}",
        "http.form: must not stand beside json",
    ),
    ("description: A., http: {url: 'http://x.example', bearer: sesame}", "http.bearer: must be { env: NAME }"),
    (
        "description: A., http: {url: 'http://x.example', headers: {Host: x}}",
        "headers.Host: is a header that glassbox sets",
    ),
    ("description: A., http: {url: 'http://x.example', headers: {a: \"x\\r\\ny\"}}", "that no HTTP header may hold"),
    ("description: A., http: {url: 'http://x.example', result: data}", "http.result: must be a JSON Pointer such as"),
    ("description: A., http: {url: 'http://x.example', failure: {equals: 1}}", "failure.pointer: is missing"),
    (
        "description: A., http: {url: 'http://x.example', methd: GET}",
        "http.methd: is not a known key; did you mean method?",
    ),
    ("description: A., sql: {database: x, statement: select 1; drop table t}", "sql.statement: must be one statement"),
    ("description: A., sql: {database: x, statement: 'select :a'}", "sql: uses a, which is neither under"),
    ("description: A., sql: {database: 'postgres://a:sesame@b/c', statement: select 1}", "must not hold a password"),
    (
        "description: A., effect: read, sql: {database: x, statement: select 1, write: true}",
        "effect: must be idempotent or unsafe",
    ),
    ("description: A., command: {argv: []}", "command.argv: must name a program first"),
    ("description: A., command: {argv: date}", "command.argv: must be a list such as"),
    ("description: A., command: {argv: ['{p}']}", "must name the program itself"),
    (
        "description: A., parameters: {type: object, properties: {x: {type: string}}, additionalProperties: false}, command: {argv: [a, '-{x}']}",
        "must have its argument after a =, as in --key={value}",
    ),
    (
        "description: A., command: {argv: [a], exit_codes: {refused: [2], tool_error: [2]}}",
        "must give each code one meaning",
    ),
    (
        "description: A., parameters: {type: object}, command: {argv: [a]}",
        "parameters: schema at the root: additionalProperties",
    ),
    (
        "description: A., parameters: {type: object, properties: {x: {type: string}}, additionalProperties: false}, command: {argv: [a]}",
        "parameters: declares x, which command does not use",
    ),
    (
        "description: A., parameters: {type: object, properties: {x: {type: string}}, additionalProperties: false}, http: {url: 'http://x.example/{x}'}",
        "parameters: must require x or give it a default, for it stands in the path",
    ),
    (
        "description: A., bind: {x: '{{ principal.id }}'}, command: {argv: [a]}",
        "bind: sets x, which command does not use",
    ),
    ("description: A., bind: {x: id}, command: {argv: [a]}", "bind.x: must be \"{{ principal.id }}\" or another claim"),
    (
        "description: A., bind: {x: '{{ principal.id }}'}, parameters: {type: object, properties: {x: {type: string}}, additionalProperties: false}, command: {argv: [a, '{x}']}",
        "bind: sets x, which stands under parameters too",
    ),
    ("description: A., confirm: {then: suspend}, command: {argv: [a]}", "confirm.when: is missing"),
    (
        "description: A., confirm: {when: {pointer: /a}}, command: {argv: [a]}",
        "must be a pointer with one of over, under",
    ),
    (
        "description: A., confirm: {when: {pointer: /a, over: 1, under: 2}}, command: {argv: [a]}",
        "must be a pointer with one of",
    ),
];

#[test]
fn each_mistake_is_told_in_its_place() {
    for (tool, part) in TABLE {
        let found = mistakes(&format!("{SMALL}tools: {{a: {{{tool}}}}}\n"), &[]);
        assert_eq!(found.len(), 1, "{tool}: {found:?}");
        assert!(found[0].contains(part), "{tool}: {}", found[0]);
        assert!(found[0].starts_with("glassbox.yaml:7:"), "{}", found[0]);
        assert!(!found[0].contains("sesame"), "{}", found[0]);
    }
}
