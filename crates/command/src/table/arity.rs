//! How many arguments a command takes.

/// The number of arguments of a request, the command's name included, and for a subcommand both
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    count_min: u8,
    exact: bool,
}

impl Arity {
    /// Takes `count` arguments, neither more nor fewer.
    pub const fn exactly(count: u8) -> Arity {
        Arity { count_min: count, exact: true }
    }

    /// Takes `count` arguments or more.
    pub const fn at_least(count: u8) -> Arity {
        Arity { count_min: count, exact: false }
    }

    /// Returns whether a request of `count` arguments fits.
    #[inline]
    pub const fn accepts(self, count: usize) -> bool {
        if self.exact { count == self.count_min as usize } else { count >= self.count_min as usize }
    }

    /// Returns the fewest arguments.
    pub const fn count_min(self) -> usize {
        self.count_min as usize
    }

    /// Returns whether no argument may be added to the fewest.
    pub const fn is_exact(self) -> bool {
        self.exact
    }

    /// Returns the number as COMMAND INFO prints it: negative for "or more".
    pub const fn number(self) -> i64 {
        if self.exact { self.count_min as i64 } else { -(self.count_min as i64) }
    }
}
