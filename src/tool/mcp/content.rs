//! What a tool gave, as the model reads it: text as it is, JSON compactly, everything else named
//! by its kind and size.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::core::{Fault, FaultKind, port::ToolReply};

/// Bytes of a tool's own word on why it failed.
const ERROR_BYTES: usize = 4096;

/// The reply that a result stands for.
///
/// # Errors
/// The tool's own word that it failed.
pub(super) fn reply(result: CallToolResult) -> Result<ToolReply, Fault> {
    let failed = result.is_error == Some(true);
    let structured = result.structured_content.filter(|value| !value.is_null());
    if failed {
        let text = blocks(&result.content, |_| true);
        let text = if text.is_empty() { structured.map_or_else(String::new, |value| value.to_string()) } else { text };
        return Err(Fault::new(FaultKind::ToolError, shorten(&text)));
    }
    Ok(match structured {
        Some(value) => with_rest(value, &result.content),
        None if result.content.is_empty() => ToolReply::Text("(no content)".to_owned()),
        None => ToolReply::Text(blocks(&result.content, |_| true)),
    })
}

/// Structured content says what the text says; what is no text is named behind it.
fn with_rest(value: Value, content: &[ContentBlock]) -> ToolReply {
    let rest = blocks(content, |block| !matches!(block, ContentBlock::Text(_)));
    if rest.is_empty() { ToolReply::Json(value) } else { ToolReply::Text(format!("{value}\n{rest}")) }
}

fn blocks(content: &[ContentBlock], wanted: impl Fn(&ContentBlock) -> bool) -> String {
    content.iter().filter(|block| wanted(block)).map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => binary("image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => binary("audio", Some(&audio.mime_type), &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                binary(&format!("resource {uri},"), mime_type.as_deref(), blob)
            }
            _ => "[a resource of a kind that is not understood]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.as_ref().or(link.title.as_ref());
            let about = about.map_or_else(String::new, |about| format!(": {about}"));
            format!("[link {} ({}){about}]", link.uri, link.name)
        }
        _ => "[content of a kind that is not understood]".to_owned(),
    }
}

/// What cannot be read is told by type and size.
fn binary(what: &str, mime_type: Option<&str>, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!("[{what} {}, {bytes} bytes]", mime_type.unwrap_or("of unknown type"))
}

fn shorten(text: &str) -> String {
    if text.is_empty() {
        return "it does not say why".to_owned();
    }
    if text.len() <= ERROR_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(ERROR_BYTES);
    format!("{}… [{} of {} bytes left out]", &text[..end], text.len() - end, text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(result: Value) -> Result<String, Fault> {
        let result = serde_json::from_value(result).expect("a result of the protocol");
        reply(result).map(ToolReply::into_text)
    }

    #[test]
    fn every_kind_of_content_is_told() {
        let content = json!([
            {"type": "text", "text": "две строки\nтекста"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "whole"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "the third"}
        ]);
        let expected = "две строки\nтекста\n[image image/png, 5 bytes]\n[audio audio/wav, 6 bytes]\n\
                        [resource file:///a]\nwhole\n[resource file:///b, of unknown type, 2 bytes]\n\
                        [link file:///c (c): the third]";
        assert_eq!(of(json!({"content": content})), Ok(expected.to_owned()));
    }

    #[test]
    fn structured_content_wins_over_the_text_that_repeats_it() {
        let text = json!({"type": "text", "text": "{\"b\": 1, \"a\": 2}"});
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        let structured = json!({"b": 1, "a": 2});
        let with = |content| json!({"content": content, "structuredContent": structured});
        assert_eq!(of(with(json!([text]))), Ok("{\"b\":1,\"a\":2}".to_owned()));
        assert_eq!(of(with(json!([text, image]))), Ok("{\"b\":1,\"a\":2}\n[image image/png, 2 bytes]".to_owned()));
        assert_eq!(of(json!({"content": []})), Ok("(no content)".to_owned()));
    }

    #[test]
    fn the_tools_own_word_that_it_failed_is_a_fault_of_its_own() {
        let wrong = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(of(wrong), Err(Fault::new(FaultKind::ToolError, "no such file")));
        let long = json!({"content": [{"type": "text", "text": "ы".repeat(4000)}], "isError": true});
        let detail = of(long).expect_err("an error").detail;
        assert!(detail.ends_with("ы… [3904 of 8000 bytes left out]"), "{}", &detail[4000..]);
        let silent = json!({"content": [], "isError": true});
        assert_eq!(of(silent).expect_err("an error").detail, "it does not say why");
    }
}
