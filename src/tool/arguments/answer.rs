//! The final answer of a session against the schema that it is held to. Unlike arguments, it may
//! be any JSON value, nothing is filled in, and its objects are as open as the schema says.

use serde_json::Value;

use super::{MAX_PROBLEMS, Problem, both_ends, explain};
use crate::tool::schema::Schema;

impl Schema {
    /// What is wrong with an answer, each with its path; nothing where it fits.
    pub fn check_answer(&self, text: &str) -> Vec<String> {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return vec![format!("the answer is not valid JSON: {error}")],
        };
        let mut problems: Vec<Problem> = Vec::new();
        for error in self.validator().iter_errors(&value).take(MAX_PROBLEMS) {
            for problem in explain::explain(self.source(), &error) {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        problems.truncate(MAX_PROBLEMS);
        problems.iter().map(phrase).collect()
    }
}

fn phrase(Problem { path, detail }: &Problem) -> String {
    if path.is_empty() { detail.clone() } else { format!("{}: {detail}", both_ends(path)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_problem_has_its_path_and_what_would_be_right() {
        let schema = json!({"type": "object", "required": ["sum", "currency"], "properties": {
            "sum": {"type": "integer"}, "currency": {"enum": ["KZT", "USD"]},
        }});
        let schema = Schema::open(&schema).expect("a good schema");
        assert_eq!(schema.check_answer(r#"{"sum": 5000, "currency": "KZT", "note": "more is allowed"}"#), [""; 0]);
        let problems = schema.check_answer(r#"{"sum": "5000"}"#);
        let expected = [
            "/currency: missing, expected one of \"KZT\", \"USD\"",
            "/sum: expected an integer, got the string \"5000\"",
        ];
        assert_eq!(problems, expected);
        let [problem] = &schema.check_answer("It is 5000.")[..] else { panic!("one problem") };
        assert!(problem.starts_with("the answer is not valid JSON: expected value at line 1"), "{problem}");
    }

    #[test]
    fn an_answer_need_not_be_an_object() {
        let schema = Schema::open(&json!({"type": "array", "items": {"type": "string"}})).expect("a good schema");
        assert_eq!(schema.check_answer(r#"["a"]"#), [""; 0]);
        assert_eq!(schema.check_answer("[1]"), ["/0: expected a string, got 1"]);
    }
}
