//! Draws what the model shows.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::model::{Model, Sheet, View};

/// Spaces between columns.
const GAP: u16 = 2;
/// No column is cut below this.
const NARROWEST: u16 = 6;

/// Draws the model. Without `colours`, what matters is bold or inverted only.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, colours: bool) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(tabs(model.view())), top);
    let sheet = model.sheet();
    if model.is_empty() {
        let text = "No service of this user with a control socket runs here.\n\nStart one with --control PATH, or name its socket: whimbrel top PATH";
        frame.render_widget(Paragraph::new(text), middle);
    } else if sheet.rows.is_empty() {
        frame.render_widget(Paragraph::new("Nothing to show here."), middle);
    } else {
        let alarm =
            if colours { Style::new().fg(Color::Red) } else { Style::new() }.add_modifier(Modifier::BOLD);
        frame.render_widget(table(&sheet, model, middle.width, alarm), middle);
    }
    frame.render_widget(Paragraph::new(footer(&sheet, model, usize::from(middle.height))), bottom);
}

fn tabs(shown: View) -> Line<'static> {
    let tab = |(at, view): (usize, View)| {
        let text = format!(" {} {} ", at + 1, view.name());
        let style = if view == shown { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Span::styled(text, style)
    };
    Line::from_iter(View::ALL.into_iter().enumerate().map(tab))
}

fn table<'a>(sheet: &Sheet, model: &Model, width: u16, alarm: Style) -> Table<'a> {
    let is_number = |at: usize| sheet.rows[0].cells.get(at).is_some_and(super::model::Cell::is_number);
    let cell = |at: usize, text: String| {
        let alignment = if is_number(at) { Alignment::Right } else { Alignment::Left };
        Cell::from(Line::from(text).alignment(alignment))
    };
    let heads = sheet.heads.iter().enumerate().map(|(at, head)| {
        let mark = match model.sorting() {
            Some((column, is_reverse)) if column == at => {
                if is_reverse {
                    "^"
                } else {
                    "v"
                }
            }
            _ => "",
        };
        cell(at, format!("{head}{mark}"))
    });
    let heads = Row::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let rows = sheet.rows.iter().skip(model.scrolled()).map(|row| {
        let cells = row.cells.iter().enumerate().map(|(at, one)| cell(at, one.text.clone()));
        Row::new(cells).style(if row.is_alarm { alarm } else { Style::new() })
    });
    let marked = model.sorting().map(|(column, _)| column);
    let widths = widths(sheet, width, marked).into_iter().map(Constraint::Length);
    Table::new(rows, widths).header(heads).column_spacing(GAP)
}

/// The widths of columns: what they need, and if that is too much, the widest give way.
fn widths(sheet: &Sheet, width: u16, marked: Option<usize>) -> Vec<u16> {
    let longest = |at: usize| {
        let cells = sheet.rows.iter().filter_map(|row| row.cells.get(at));
        let head = sheet.heads[at].len() + usize::from(marked == Some(at));
        cells.map(|cell| cell.text.chars().count()).chain([head]).max().unwrap_or(0) as u16
    };
    let mut widths: Vec<u16> = (0..sheet.heads.len()).map(longest).collect();
    let room = width.saturating_sub(GAP * (widths.len() as u16).saturating_sub(1));
    while widths.iter().sum::<u16>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else { break };
        *widest -= 1;
    }
    widths
}

fn footer(sheet: &Sheet, model: &Model, height: usize) -> String {
    // One line of the table is its head.
    let (first, all) = (model.scrolled(), sheet.rows.len());
    let last = (first + height.saturating_sub(1)).min(all);
    let place = if all == 0 { String::new() } else { format!("{}-{last} of {all}  ", first + 1) };
    let more = if sheet.more.is_empty() { String::new() } else { format!("{}  ", sheet.more) };
    format!("{place}{more}q quit  1-5 tab view  s sort  r reverse  up down scroll")
}

#[cfg(test)]
mod tests;
