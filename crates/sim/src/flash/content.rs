//! What kind of content pages have: programming zeros or ones takes another time (Sun and Zhang, section 4.4).

use serde::{Deserialize, Serialize};

use super::{LogicalPage, PhysicalPage};

/// The kind of a page's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageContent {
    /// Anything else.
    #[default]
    Mixed,
    /// Every bit is zero.
    Zeros,
    /// Every bit is one, as in erased flash.
    Ones,
}

impl PageContent {
    /// The kind of `data`.
    pub fn of(data: &[u8]) -> PageContent {
        match data.first() {
            Some(0) if data.iter().all(|&byte| byte == 0) => PageContent::Zeros,
            Some(0xFF) if data.iter().all(|&byte| byte == 0xFF) => PageContent::Ones,
            _ => PageContent::Mixed,
        }
    }
}

/// The kind of content of every physical page, and what programming it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageContents {
    of_page: Vec<PageContent>,
    #[serde(skip)]
    host: HostContents,
    /// The share of the usual program time that zeros and ones take.
    zeros: f32,
    ones: f32,
    /// The sum of the shares of the pages relocated since they were last timed, and their number.
    moving: (f32, u32),
    /// What is programmed instead of the host's pages, while content is copied as if the host wrote it.
    copied: Option<PageContent>,
}

/// What the host's request holds, page by page; every other page is mixed.
#[derive(Clone, Debug, PartialEq)]
struct HostContents {
    first: LogicalPage,
    kinds: Vec<PageContent>,
}

impl Default for HostContents {
    fn default() -> HostContents {
        HostContents { first: LogicalPage(0), kinds: Vec::new() }
    }
}

impl PageContents {
    /// Erased flash of `pages` pages, in which zeros and ones take these shares of the usual program time.
    pub fn new(pages: u32, zeros: f32, ones: f32) -> PageContents {
        let of_page = vec![PageContent::Ones; pages as usize];
        PageContents { of_page, host: HostContents::default(), zeros, ones, moving: (0.0, 0), copied: None }
    }

    /// Whether this, read from outside bytes, is a state of `fresh` between two requests.
    pub(super) fn is_like(&self, fresh: &PageContents) -> bool {
        let options = |contents: &PageContents| (contents.of_page.len(), contents.zeros, contents.ones);
        options(self) == options(fresh) && self.moving == (0.0, 0) && self.copied.is_none()
    }

    pub(super) fn set_host(&mut self, first: LogicalPage, kinds: impl Iterator<Item = PageContent>) {
        self.host.first = first;
        self.host.kinds.clear();
        self.host.kinds.extend(kinds);
    }

    /// What the host writes from now on is the content of the page `from`.
    pub(super) fn begin_copy(&mut self, from: PhysicalPage) {
        self.copied = Some(self.of_page[from.index()]);
    }

    pub(super) fn end_copy(&mut self) {
        self.copied = None;
    }

    fn of_host(&self, page: LogicalPage) -> PageContent {
        let at = page.0.checked_sub(self.host.first.0).and_then(|at| self.host.kinds.get(at as usize));
        self.copied.or(at.copied()).unwrap_or_default()
    }

    fn share(&self, content: PageContent) -> f32 {
        match content {
            PageContent::Mixed => 1.0,
            PageContent::Zeros => self.zeros,
            PageContent::Ones => self.ones,
        }
    }

    /// The mean share of `pages` pages of the host from `logical` on, which are programmed from `first` on.
    pub(super) fn program(&mut self, first: PhysicalPage, logical: LogicalPage, pages: u32) -> f32 {
        let mut sum = 0.0;
        for page in 0..pages {
            let content = self.of_host(logical + page);
            self.of_page[(first + page).index()] = content;
            sum += self.share(content);
        }
        sum / pages as f32
    }

    pub(super) fn relocate(&mut self, from: PhysicalPage, to: PhysicalPage) {
        let content = self.of_page[from.index()];
        self.of_page[to.index()] = content;
        self.moving = (self.moving.0 + self.share(content), self.moving.1 + 1);
    }

    pub(super) fn moved(&mut self) -> f32 {
        let (sum, pages) = std::mem::take(&mut self.moving);
        if pages == 0 { 1.0 } else { sum / pages as f32 }
    }
}
