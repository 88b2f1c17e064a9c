//! The circuit breakers with what they count, and an operator's switches.

use askama::Template;
use axum::{
    extract::State,
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;

use super::{
    frame::{Frame, Place},
    look::{self, Moment, Pill, took},
    page,
    posted::{Posted, filled},
    text,
    visitor::Visitor,
};
use crate::{
    config::CircuitBreaker,
    http::{
        Api,
        auth::Caller,
        circuits::{Action, act, hold},
        problem::Problem,
    },
    policy::Standing,
};

#[derive(Template)]
#[template(path = "circuits.html")]
struct Circuits {
    f: Frame,
    rules: Rules,
    is_operator: bool,
    rows: Vec<Row>,
}

/// When breakers open, in words.
struct Rules {
    window: String,
    share: String,
    least: u32,
    pause: String,
}

struct Row {
    kind: &'static str,
    /// As it is, for the form.
    name: String,
    shown: String,
    state: Pill,
    forced: bool,
    by: String,
    until: Option<Moment>,
    failures: u64,
    counted: u64,
    /// The share of failures in percent.
    share: String,
}

/// A switch as the form sends it.
#[derive(Deserialize)]
pub(super) struct Switch {
    kind: String,
    name: String,
    action: Action,
    #[serde(rename = "for")]
    hold: Option<String>,
}

pub(super) async fn list(State(api): State<Api>, caller: Caller, visitor: Visitor) -> Response {
    let f = visitor.frame(Place::Circuits);
    let rules = Rules::of(&f, &api.options.breaker);
    let rows = api.runtime.circuits().standings().into_iter().map(|standing| Row::of(&f, standing)).collect();
    page(&Circuits { f, rules, is_operator: caller.is_operator(), rows })
}

pub(super) async fn switch(
    State(api): State<Api>,
    caller: Caller,
    Posted(switch): Posted<Switch>,
) -> Result<Response, Problem> {
    // The form has one field for the time, also where none is meant.
    let time = filled(switch.hold).filter(|_| !matches!(switch.action, Action::Reset));
    let act = act(switch.action, time.as_deref())?;
    hold(&api, &caller, &switch.kind, switch.name, act).await?;
    Ok(Redirect::to("/console/circuits").into_response())
}

impl Rules {
    fn of(f: &Frame, rules: &CircuitBreaker) -> Self {
        Self {
            window: took(f.t, rules.window),
            share: percent(rules.failure_threshold),
            least: rules.min_calls,
            pause: took(f.t, rules.half_open_after),
        }
    }
}

impl Row {
    fn of(f: &Frame, standing: Standing) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "attempts of one window are far below 2^52")]
        let share = standing.failures as f64 / standing.counted.max(1) as f64;
        Self {
            kind: standing.circuit.kind.label(),
            shown: text::line(&standing.circuit.name),
            name: standing.circuit.name,
            state: look::circuit(f.t, standing.state),
            forced: standing.forced,
            by: standing.by.filter(|_| standing.forced).map(|by| text::line(by.expose())).unwrap_or_default(),
            until: standing.until.map(Moment::of),
            failures: standing.failures,
            counted: standing.counted,
            share: percent(share),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
