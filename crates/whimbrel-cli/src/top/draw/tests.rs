use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::super::model::tests::{broker, model_of};
use super::super::model::{Model, View, Wish};
use super::draw;

fn drawn(model: &Model, (width, height): (u16, u16), colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, colours)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(line).collect()
}

#[test]
fn it_fits_into_eighty_columns() {
    let mut model = model_of(vec![("/run/broker.sock", Ok(broker(40, 1)))]);
    let shown = lines(&drawn(&model, (80, 24), true));
    assert!(shown[0].starts_with(" 1 overview  2 channels and flows  3 subscribers  4 paths"), "{shown:?}");
    assert!(
        shown[3].contains("broker")
            && shown[3].contains("250/s")
            && shown[3].contains("1 slow of 40, 1/2 linked"),
        "{shown:#?}"
    );
    model.handle(Wish::View(View::Subscribers));
    let shown = lines(&drawn(&model, (80, 24), true));
    assert!(shown[2].contains("client") && shown[2].contains("lag"), "{shown:#?}");
    assert!(shown[3].contains("client0") && shown[3].contains("slow for 7.00 s"), "{shown:#?}");
    assert_eq!(shown.iter().filter(|line| line.contains("prices/#")).count(), 20, "{shown:#?}");
    assert!(shown[23].starts_with("1-20 of 40  and 5 more that lag less  q quit"), "{shown:#?}");
    model.handle(Wish::Scroll(30));
    let shown = lines(&drawn(&model, (80, 24), true));
    assert!(shown[3].contains("client30") && shown[23].starts_with("31-40 of 40"), "{shown:#?}");
}

#[test]
fn no_size_is_too_small() {
    let mut model = model_of(vec![("/run/a", Ok(broker(5, 1))), ("/run/b", Err("gone".to_owned()))]);
    for view in View::ALL {
        model.handle(Wish::View(view));
        for size in [(1, 1), (10, 3), (20, 4), (80, 2), (300, 100)] {
            drawn(&model, size, true);
        }
    }
    drawn(&Model::new(), (5, 2), true);
}

#[test]
fn what_is_slow_is_red_and_without_colours_bold() {
    let mut model = model_of(vec![("/run/a", Ok(broker(3, 1)))]);
    model.handle(Wish::View(View::Subscribers));
    let coloured = drawn(&model, (80, 24), true);
    assert_eq!(coloured[(0, 3)].fg, Color::Red);
    assert_eq!(coloured[(0, 4)].fg, Color::Reset);
    let plain = drawn(&model, (80, 24), false);
    assert!(plain.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(plain[(0, 3)].modifier.contains(Modifier::BOLD));
    assert!(!plain[(0, 4)].modifier.contains(Modifier::BOLD));
}

#[test]
fn without_a_service_it_says_how_to_start_one() {
    let shown = lines(&drawn(&Model::new(), (80, 24), false)).join("\n");
    assert!(shown.contains("--control PATH"), "{shown}");
}
