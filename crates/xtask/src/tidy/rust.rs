//! A parsed Rust file: its tokens in order, its functions, and which of its lines are tests.

use std::ops::RangeInclusive;

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// A token with the line it starts on. `::` is one token; a delimiter is a token of its own.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token as written.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

/// A function and the lines from its `fn` line to its closing brace.
#[derive(Debug)]
pub struct Function {
    /// Its name, with the type or trait of the enclosing `impl` in front where there is one.
    pub name: String,
    /// The lines it takes, signature included, attributes and documentation excluded.
    pub lines: RangeInclusive<usize>,
}

/// What tidy knows of a Rust file.
#[derive(Debug)]
pub struct RustFile<'a> {
    /// The file itself.
    pub source: &'a SourceFile,
    /// All tokens in order, those inside macro calls too. Comments are absent.
    pub tokens: Vec<Token>,
    /// Each import spelled out, so that `use std::{fs, net};` is found like `use std::fs;`.
    pub imports: Vec<Vec<Token>>,
    /// All functions that have a body.
    pub functions: Vec<Function>,
    modules: Vec<Module>,
    test_lines: Vec<RangeInclusive<usize>>,
    only_tests: bool,
}

/// A module that lies in a file of its own.
#[derive(Debug)]
struct Module {
    /// Its name, with those of the modules around it in the same file in front.
    name: String,
    is_test: bool,
    /// A macro declares it.
    is_of_macro: bool,
}

impl<'a> RustFile<'a> {
    /// Parses `source`.
    ///
    /// # Errors
    /// When the text is no Rust; the error knows the line.
    pub fn parse(source: &'a SourceFile) -> syn::Result<RustFile<'a>> {
        let stream: TokenStream = source.text.parse().map_err(syn::Error::from)?;
        let mut tokens = Vec::new();
        flatten(stream.clone(), &mut tokens);
        let mut collector = Collector::default();
        collector.visit_file(&syn::parse2(stream)?);
        Ok(RustFile {
            source,
            tokens,
            imports: collector.imports,
            functions: collector.functions,
            modules: collector.modules,
            test_lines: collector.test_lines,
            only_tests: source.is_test(),
        })
    }

    /// Returns whether `line` belongs to a test.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.only_tests || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Returns how many lines the file has outside of tests.
    pub fn line_count(&self) -> usize {
        (1..=self.source.text.lines().count()).filter(|&line| !self.is_test_line(line)).count()
    }
}

/// Marks the files of modules that another file declares under `#[cfg(test)]`.
pub fn mark_test_modules(files: &mut [RustFile<'_>]) {
    let modules: Vec<String> = module_paths(files, |module| module.is_test);
    for file in files {
        let path = file.source.module_path();
        file.only_tests |= modules.iter().any(|module| is_within(path, module));
    }
}

/// Returns a finding for each file under a crate's `src` that no file declares as its module.
pub fn check_reached(files: &[RustFile<'_>]) -> Vec<Finding> {
    let modules = module_paths(files, |_| true);
    let is_reached = |file: &&RustFile<'_>| {
        let path = file.source.module_path();
        !path.contains("/src/")
            || path.contains("/src/bin/")
            || modules.iter().any(|module| module == path)
    };
    let dead = files.iter().filter(|file| !is_reached(file));
    dead.map(|file| file.source.finding(0, "no `mod` declares this file: it is dead")).collect()
}

/// Returns the paths of the files whose modules a macro declares.
pub fn declared_by_macros<'a>(files: &[RustFile<'a>]) -> Vec<&'a str> {
    let modules = module_paths(files, |module| module.is_of_macro);
    let sources = files.iter().map(|file| file.source);
    let declared = sources.filter(|source| modules.iter().any(|path| path == source.module_path()));
    declared.map(|source| source.path.as_str()).collect()
}

/// Returns where the files of the chosen modules are, without `.rs`.
fn module_paths(files: &[RustFile<'_>], choose: fn(&Module) -> bool) -> Vec<String> {
    let chosen = |file: &RustFile<'_>| {
        let parent = file.source.module_path().to_owned();
        let modules = file.modules.iter().filter(|module| choose(module));
        modules.map(|module| format!("{parent}/{}", module.name)).collect::<Vec<_>>()
    };
    files.iter().flat_map(chosen).collect()
}

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let [open, close] = delimiters(group.delimiter());
                let close_line = group.span_close().end().line;
                tokens.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: close_line });
            }
            TokenTree::Punct(punct) => push_punct(punct.as_char(), punct.spacing(), line, tokens),
            other => tokens.push(Token { text: other.to_string(), line }),
        }
    }
}

fn delimiters(delimiter: proc_macro2::Delimiter) -> [&'static str; 2] {
    match delimiter {
        proc_macro2::Delimiter::Parenthesis => ["(", ")"],
        proc_macro2::Delimiter::Brace => ["{", "}"],
        proc_macro2::Delimiter::Bracket => ["[", "]"],
        proc_macro2::Delimiter::None => ["", ""],
    }
}

/// Appends a punctuation character; the second colon of `::` joins the first.
fn push_punct(character: char, spacing: Spacing, line: usize, tokens: &mut Vec<Token>) {
    match tokens.last_mut() {
        Some(last) if character == ':' && last.text == ":+" => last.text = "::".to_owned(),
        _ if character == ':' && spacing == Spacing::Joint => {
            tokens.push(Token { text: ":+".to_owned(), line });
        }
        _ => tokens.push(Token { text: character.to_string(), line }),
    }
}

/// Walks a file and notes functions, imports and tests.
#[derive(Default)]
struct Collector {
    functions: Vec<Function>,
    imports: Vec<Vec<Token>>,
    test_lines: Vec<RangeInclusive<usize>>,
    modules: Vec<Module>,
    around: String,
    owner: String,
}

impl Collector {
    fn note_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        let name = format!("{}{}", self.owner, signature.ident);
        self.functions.push(Function { name, lines: first..=last });
    }

    fn note_test(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
        if attributes.iter().any(is_test_attribute) {
            self.test_lines.push(lines_of(item));
        }
    }

    fn with_owner(&mut self, owner: String, walk: impl FnOnce(&mut Collector)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        walk(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.note_test(attributes_of(item), item);
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        // The file of `mod r#type;` is type.rs.
        let name = format!("{}{}", self.around, module.ident.unraw());
        if module.content.is_none() {
            let is_test = module.attrs.iter().any(is_test_attribute);
            self.modules.push(Module { name, is_test, is_of_macro: false });
            return;
        }
        let outer = std::mem::replace(&mut self.around, format!("{name}/"));
        visit::visit_item_mod(self, module);
        self.around = outer;
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let declared = item.mac.parse_body_with(module_list).unwrap_or_default();
        let around = &self.around;
        self.modules.extend(
            declared
                .into_iter()
                .map(|module| Module { name: format!("{around}{}", module.name), ..module }),
        );
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        spell_out(&item.tree, &mut Vec::new(), &mut self.imports);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = format!("{}::", type_name(&item.self_ty));
        self.with_owner(owner, |collector| visit::visit_item_impl(collector, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let owner = format!("{}::", item.ident);
        self.with_owner(owner, |collector| visit::visit_item_trait(collector, item));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note_test(&function.attrs, function);
        self.note_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.note_function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Reads the body of a macro that declares modules: `mod name ..;` each, with its attributes.
fn module_list(body: syn::parse::ParseStream<'_>) -> syn::Result<Vec<Module>> {
    let mut modules = Vec::new();
    while !body.is_empty() {
        let attributes = body.call(syn::Attribute::parse_outer)?;
        body.parse::<syn::Token![mod]>()?;
        let name = body.parse::<syn::Ident>()?.to_string();
        while !body.peek(syn::Token![;]) {
            body.parse::<TokenTree>()?;
        }
        body.parse::<syn::Token![;]>()?;
        let is_test = attributes.iter().any(is_test_attribute);
        modules.push(Module { name, is_test, is_of_macro: true });
    }
    Ok(modules)
}

fn lines_of(item: &impl Spanned) -> RangeInclusive<usize> {
    let span = item.span();
    span.start().line..=span.end().line
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether the attribute is `#[test]`, or a `#[cfg(..)]` that holds in tests only.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Meta>().is_ok_and(|predicate| needs_test(&predicate))
}

/// Returns whether a cfg predicate is false in every build that is no test.
fn needs_test(predicate: &syn::Meta) -> bool {
    let syn::Meta::List(list) = predicate else { return predicate.path().is_ident("test") };
    let parser = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let Ok(inner) = list.parse_args_with(parser) else { return false };
    match list.path.get_ident() {
        Some(name) if name == "all" => inner.iter().any(needs_test),
        Some(name) if name == "any" => !inner.is_empty() && inner.iter().all(needs_test),
        _ => false,
    }
}

fn type_name(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Path(path) => {
            path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
        }
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => "impl".to_owned(),
    }
}

/// Appends one token list to `imports` for each name that `tree` imports below `prefix`.
fn spell_out(tree: &syn::UseTree, prefix: &mut Vec<Token>, imports: &mut Vec<Vec<Token>>) {
    let depth = prefix.len();
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(token_of(&path.ident));
            prefix.push(Token { text: "::".to_owned(), line: path.ident.span().start().line });
            spell_out(&path.tree, prefix, imports);
        }
        syn::UseTree::Group(group) => {
            for item in &group.items {
                spell_out(item, prefix, imports);
            }
        }
        syn::UseTree::Name(name) => prefix.push(token_of(&name.ident)),
        syn::UseTree::Rename(rename) => prefix.push(token_of(&rename.ident)),
        syn::UseTree::Glob(_) => {}
    }
    if !matches!(tree, syn::UseTree::Path(_) | syn::UseTree::Group(_)) {
        imports.push(prefix.clone());
    }
    prefix.truncate(depth);
}

fn token_of(name: &syn::Ident) -> Token {
    Token { text: name.to_string(), line: name.span().start().line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceFile {
        SourceFile::new("crates/engine/src/sample.rs", text)
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let file = source("/// Doc.\n#[inline]\nfn one(\n    x: u8,\n) {\n    let _ = x;\n}\n");
        let parsed = RustFile::parse(&file).expect("the sample is Rust");
        assert_eq!(parsed.functions[0].lines, 3..=7);
        let file = source("struct A;\nimpl A {\n    fn two() {\n    }\n}\n");
        let parsed = RustFile::parse(&file).expect("the sample is Rust");
        assert_eq!(parsed.functions[0].name, "A::two");
        assert_eq!(parsed.functions[0].lines, 3..=4);
    }

    #[test]
    fn lines_of_tests_are_known() {
        let file = source("fn a() {}\n#[cfg(all(test, unix))]\nmod t {\n    fn b() {}\n}\n");
        let parsed = RustFile::parse(&file).expect("the sample is Rust");
        assert!(!parsed.is_test_line(1));
        assert!((2..=5).all(|line| parsed.is_test_line(line)));
        assert_eq!(parsed.line_count(), 1);
    }

    #[test]
    fn a_cfg_that_also_holds_outside_of_tests_marks_nothing() {
        for cfg in ["any(test, feature = \"x\")", "not(test)", "loom"] {
            let file = source(&format!("#[cfg({cfg})]\nfn a() {{}}\n"));
            let parsed = RustFile::parse(&file).expect("the sample is Rust");
            assert!(!parsed.is_test_line(2), "{cfg}");
        }
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_marked() {
        let parent = SourceFile::new("crates/a/src/map.rs", "#[cfg(test)]\nmod checks;\n");
        let child = SourceFile::new("crates/a/src/map/checks.rs", "fn a() {}\n");
        let other = SourceFile::new("crates/a/src/map/checksum.rs", "fn a() {}\n");
        let mut files: Vec<RustFile<'_>> = [&parent, &child, &other]
            .map(|file| RustFile::parse(file).expect("the sample is Rust"))
            .into();
        mark_test_modules(&mut files);
        assert_eq!(files[1].line_count(), 0);
        assert_eq!(files[2].line_count(), 1);
    }

    #[test]
    fn a_file_that_no_module_declares_is_caught() {
        let root = SourceFile::new("crates/a/src/lib.rs", "mod map { mod r#in; }\nmod set;\n");
        let inner = SourceFile::new("crates/a/src/map/in.rs", "");
        let set = SourceFile::new("crates/a/src/set/mod.rs", "");
        let dead = SourceFile::new("crates/a/src/set/dead.rs", "");
        let test = SourceFile::new("crates/a/tests/b.rs", "");
        let program = SourceFile::new("crates/a/src/bin/c.rs", "");
        let files = [&root, &inner, &set, &dead, &test, &program]
            .map(|file| RustFile::parse(file).expect("the sample is Rust"));
        let findings = check_reached(&files);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, dead.path);
    }

    #[test]
    fn a_module_that_a_macro_declares_is_reached_and_may_be_a_test() {
        let list = "kinds! {\n    mod set: Set;\n    #[cfg(test)]\n    mod probe: Probe;\n}\n";
        let parent = SourceFile::new("crates/a/src/map.rs", list);
        let root = SourceFile::new("crates/a/src/lib.rs", "mod map;\n");
        let set = SourceFile::new("crates/a/src/map/set.rs", "fn a() {}\n");
        let probe = SourceFile::new("crates/a/src/map/probe.rs", "fn a() {}\n");
        let mut files: Vec<RustFile<'_>> = [&root, &parent, &set, &probe]
            .map(|file| RustFile::parse(file).expect("the sample is Rust"))
            .into();
        mark_test_modules(&mut files);
        let counts: Vec<usize> = files[2..].iter().map(RustFile::line_count).collect();
        assert_eq!(counts, [1, 0]);
        assert_eq!(check_reached(&files), []);
        assert_eq!(declared_by_macros(&files), [&*set.path, &*probe.path]);
    }

    #[test]
    fn grouped_imports_are_spelled_out() {
        let file = source("use std::{fs, net::{self, TcpStream as T}};\n");
        let parsed = RustFile::parse(&file).expect("the sample is Rust");
        let spelled: Vec<String> = parsed
            .imports
            .iter()
            .map(|tokens| tokens.iter().map(|token| token.text.as_str()).collect())
            .collect();
        assert_eq!(spelled, ["std::fs", "std::net::self", "std::net::TcpStream"]);
    }
}
