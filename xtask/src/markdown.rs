//! The parts of Markdown that the docs audit needs: headings' anchors, link targets, and lines outside code fences.

use std::collections::{BTreeMap, BTreeSet};

pub struct Page {
    /// What `#…` may name: headings as GitHub turns them into anchors, and explicit `id`s.
    pub anchors: BTreeSet<String>,
    /// Line and target of each inline link, image and reference definition.
    pub links: Vec<(usize, String)>,
    /// The lines outside code fences, with their numbers.
    pub prose: Vec<(usize, String)>,
}

impl Page {
    pub fn parse(text: &str) -> Self {
        let prose = outside_fences(text);
        let mut page = Self { anchors: BTreeSet::new(), links: Vec::new(), prose: Vec::new() };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (number, line) in &prose {
            if let Some(heading) = heading(line) {
                let slug = slug(heading);
                let count = seen.entry(slug.clone()).or_default();
                page.anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
            }
            for attribute in ["id=\"", "name=\""] {
                page.anchors.extend(line.split(attribute).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
            page.links.extend(link_targets(&without_code(line)).into_iter().map(|target| (*number, target)));
        }
        page.prose = prose;
        page
    }
}

fn outside_fences(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let marker = ["```", "~~~"].into_iter().find(|marker| line.trim_start().starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (None, None) => lines.push((number, line.to_owned())),
            (Some(_), _) => {}
        }
    }
    lines
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    if (1..=6).contains(&level) { text.strip_prefix(' ') } else { None }
}

/// GitHub's rule: lower case, punctuation dropped, spaces become hyphens; of a link only its text counts.
fn slug(heading: &str) -> String {
    let mut text = heading.trim().to_owned();
    while let Some((before, link, after)) = split_link(&text) {
        text = format!("{before}{}{after}", link.0);
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The first `[text](target)`: what is before it, its two parts, what is after it.
fn split_link(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let middle = text.find("](")?;
    let open = text[..middle].rfind('[')?;
    let mut depth = 1_usize;
    let length = text[middle + 2..].find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let end = middle + 2 + length;
    Some((&text[..open], (&text[open + 1..middle], &text[middle + 2..end]), &text[end + 1..]))
}

fn link_targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut rest = line;
    while let Some((_, (text, target), after)) = split_link(rest) {
        // An image as the text of a link: `[![alt](image)](target)` is met from the inside.
        targets.push(target);
        if let Some((_, target)) = text.rsplit_once("](") {
            targets.push(target);
        }
        rest = after;
        if let Some(outer) = rest.strip_prefix("](")
            && let Some((target, after)) = outer.split_once(')')
        {
            targets.push(target);
            rest = after;
        }
    }
    if let Some((label, target)) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "))
        && !label.contains(']')
    {
        targets.push(target);
    }
    targets.into_iter().map(bare_target).filter(|target| !target.is_empty()).collect()
}

/// Without a title and without angle brackets.
fn bare_target(target: &str) -> String {
    let target = target.trim();
    match target.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((inner, _)) => inner.to_owned(),
        None => target.split_whitespace().next().unwrap_or_default().to_owned(),
    }
}

fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An unpaired backtick is text: only pieces between two backticks are code.
    let is_text = |(index, part): (usize, &&str)| (index % 2 == 0 || index + 1 == parts.len()).then(|| (*part).to_owned());
    parts.iter().enumerate().filter_map(is_text).collect::<Vec<_>>().join("``")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_githubs() {
        let page =
            Page::parse("# A b's `C_d` — e\n## Same\n## Same\n### See [the page](x.md)\n<a id=\"own\"></a>\n```\n# not one\n```\n#tag\n");
        let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["a-bs-c_d--e", "own", "same", "same-1", "see-the-page"]);
    }

    #[test]
    fn link_targets_are_found_and_code_is_not() {
        let page = Page::parse("[a](b.md \"t\") `[c](d)` ![e](<f g.png>) [h](i_(j).md)\n[![k](l)](m)\n[n]: o.md#p\n~~~\n[q](r)\n~~~\n");
        let targets: Vec<_> = page.links.iter().map(|(line, target)| (*line, target.as_str())).collect();
        assert_eq!(targets, [(1, "b.md"), (1, "f g.png"), (1, "i_(j).md"), (2, "l"), (2, "m"), (3, "o.md#p")]);
    }
}
