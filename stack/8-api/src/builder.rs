//! Methods that several builders have, written once. A builder names them within its own `impl`, so
//! that they are methods of its own, with their documentation. `tests/surface.rs` lists them for
//! each builder.

/// `progress`, of a builder with a [`Control`](crate::progress::Control). The builder documents the
/// units.
macro_rules! progress_method {
    ($(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn progress(mut self, report: impl Fn(Progress) + Sync + 'c) -> Self {
            self.control.report = crate::progress::Report::new(report);
            self
        }
    };
}

/// `notices`, of a builder with a [`Control`](crate::progress::Control). The builder documents what
/// they are about.
macro_rules! notices_method {
    ($(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn notices(mut self, receive: impl Fn(Notice<'_>) + Sync + 'c) -> Self {
            self.control.notices = crate::notice::Notices::new(receive);
            self
        }
    };
}

/// `cancel`, of a builder with a [`Control`](crate::progress::Control). The builder documents what
/// is left.
macro_rules! cancel_method {
    ($(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn cancel(mut self, token: &CancelToken) -> Self {
            self.control.cancel = token.clone();
            self
        }
    };
}

/// The sources of a copy into a volume, and how they are read: of a builder with `sources`, their
/// `options`, and a field that has `owners` and `labels`.
macro_rules! source_methods {
    (owners and labels in $of:ident) => {
        /// Adds what is in a directory, without the directory's name. A later source replaces
        /// entries of earlier ones.
        pub fn dir(mut self, path: impl AsRef<Path>) -> Self {
            self.sources.push(Source::Dir(path.as_ref().to_owned()));
            self
        }

        /// Adds a tar archive: plain, or compressed with gzip, zstd or xz.
        pub fn tar(mut self, path: impl AsRef<Path>) -> Self {
            self.sources.push(Source::Tar(path.as_ref().to_owned()));
            self
        }

        /// Sets owners by rules, one a line: `uid FROM TO`, `gid FROM TO`, `path PATTERN UID GID`,
        /// with paths in the volume.
        ///
        /// # Errors
        /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a line that is no rule.
        pub fn owner_map(mut self, rules: impl AsRef<[u8]>) -> Result<Self> {
            self.$of.owners = Some(Owners::parse(rules.as_ref()).map_err(Error::new)?);
            Ok(self)
        }

        /// Sets SELinux labels by path in the volume: the content of a policy's `file_contexts`.
        ///
        /// # Errors
        /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a line that is no rule.
        pub fn selinux_contexts(mut self, contexts: impl AsRef<[u8]>) -> Result<Self> {
            self.$of.labels = Some(Labels::parse(contexts.as_ref()).map_err(Error::new)?);
            Ok(self)
        }

        /// Applies the whiteouts of OCI layers within the sources, in place of copying them as
        /// files.
        pub fn whiteouts(mut self, whiteouts: bool) -> Self {
            self.options.whiteouts = whiteouts;
            self
        }

        /// Fails where something cannot be read, in place of leaving it out.
        pub fn strict(mut self, strict: bool) -> Self {
            self.options.strict = strict;
            self
        }

        /// Bounds the memory for names and attributes of archives, in bytes. By default the bound
        /// depends on the size of the archives.
        pub fn memory_limit(mut self, bytes: u64) -> Self {
            self.options.memory_limit = Some(bytes);
            self
        }
    };
}

pub(crate) use {cancel_method, notices_method, progress_method, source_methods};
