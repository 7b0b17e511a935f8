//! The kind of content of each page. Programming zeros or ones takes another time than programming mixed content (Sun
//! and Zhang, section 4.4).

use serde::{Deserialize, Serialize};

use super::{LogicalPage, PhysicalPage};

/// The kind of a page's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageContent {
    /// Neither of the other two.
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

/// The kind of content of every physical page, and the program times of the kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageContents {
    of_page: Vec<PageContent>,
    #[serde(skip)]
    host: HostContents,
    /// The program time of zeros and of ones, as a share of the usual one.
    zeros: f32,
    ones: f32,
    /// The sum of the shares of the pages that were relocated since the last copy, and their number.
    relocated: (f32, u32),
    /// During a fold: the kind of content that is programmed instead of the host's.
    copied: Option<PageContent>,
}

/// The kinds of content of the pages of the host's request; every other page is mixed.
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
        PageContents {
            of_page,
            host: HostContents::default(),
            zeros,
            ones,
            relocated: (0.0, 0),
            copied: None,
        }
    }

    /// Whether this, read from outside bytes, is a state of `fresh` between two requests.
    pub(super) fn is_like(&self, fresh: &PageContents) -> bool {
        let options = |contents: &PageContents| (contents.of_page.len(), contents.zeros, contents.ones);
        options(self) == options(fresh) && self.relocated == (0.0, 0) && self.copied.is_none()
    }

    pub(super) fn set_host(&mut self, first: LogicalPage, kinds: impl Iterator<Item = PageContent>) {
        self.host.first = first;
        self.host.kinds.clear();
        self.host.kinds.extend(kinds);
    }

    /// From now on the host writes the content of the page `from`.
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

    /// Programs `pages` pages of the host from `logical` on to the pages from `first` on. Returns their mean share of the
    /// usual program time.
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
        self.relocated = (self.relocated.0 + self.share(content), self.relocated.1 + 1);
    }

    /// The mean share of the usual program time of the pages that were relocated since the last call.
    pub(super) fn take_program_share(&mut self) -> f32 {
        let (sum, pages) = std::mem::take(&mut self.relocated);
        if pages == 0 { 1.0 } else { sum / pages as f32 }
    }
}
