//! Aligned columns.

use crate::output::{Out, Paint, harmless};

/// How a cell is painted, if anything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warn,
    Dim,
}

/// A cell.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: harmless(&text.into(), &[]), tone }
    }

    pub fn dim(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::Dim)
    }

    /// `-` for nothing.
    pub fn option(text: Option<impl Into<String>>) -> Self {
        text.map_or_else(|| Self::dim("-"), |text| Self::from(text.into()))
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// Rows under headers.
#[derive(Debug)]
pub struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(headers: &[&'static str]) -> Self {
        Self { headers: headers.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Two blanks between columns; the last column is not padded.
    pub fn render(&self, paint: Paint) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
            cells.chain([self.headers[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.headers.len()).map(width).collect();
        let mut out = String::new();
        let headers: Vec<_> = self.headers.iter().map(|header| Cell::dim(*header)).collect();
        for row in std::iter::once(&headers).chain(&self.rows) {
            let last = row.len().saturating_sub(1);
            for (column, cell) in row.iter().enumerate() {
                let pad = if column == last { 0 } else { widths[column] - cell.text.chars().count() + 2 };
                out.push_str(&cell.painted(paint));
                out.extend(std::iter::repeat_n(' ', pad));
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
        out
    }

    pub fn print(&self, out: &Out) {
        out.text(self.render(out.paint));
    }
}

impl Cell {
    fn painted(&self, paint: Paint) -> String {
        match self.tone {
            Tone::Plain => self.text.clone(),
            Tone::Good => paint.green(&self.text),
            Tone::Bad => paint.red(&self.text),
            Tone::Warn => paint.yellow(&self.text),
            Tone::Dim => paint.dim(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut table = Table::new(&["ID", "STATUS", "NOTE"]);
        table.row(["a".into(), "succeeded".into(), Cell::option(None::<String>)]);
        table.row(["größer".into(), "x".into(), "".into()]);
        assert_eq!(table.render(Paint::plain()), "ID      STATUS     NOTE\na       succeeded  -\ngrößer  x\n");
    }
}
