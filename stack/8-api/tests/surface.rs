//! The public surface, as `SURFACE.txt` has it: a change of the surface is a decision.
//!
//! The listing is made from the source by `syn`: every exported item without its bodies and private
//! fields, and every public method and trait of it; those of a public module behind its name.
//! `raw` is a module without any promise and is one line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, ImplItem, ImplItemFn, Item, ItemImpl, Type, UseTree, Visibility};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn parsed(path: &Path) -> syn::File {
    let text = std::fs::read_to_string(path).unwrap();
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The source files but those of `raw`.
fn modules(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            modules(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("raw.rs") {
            found.push(path);
        }
    }
}

/// The names that a `use` exports.
fn exported(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => exported(&path.tree, names),
        UseTree::Group(group) => group.items.iter().for_each(|tree| exported(tree, names)),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Rename(rename) => drop(names.insert(rename.rename.to_string())),
        UseTree::Glob(_) => panic!("the root exports nothing by a glob"),
    }
}

/// The text of tokens, spaced as source is.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (loose, tight) in [
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        (" :: ", "::"),
        (" : ", ": "),
        (" ;", ";"),
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" ! ", "! "),
        ("->(", "-> ("),
        (" :", ":"),
        ("[ ", "["),
        (" ]", "]"),
        ("impl Fn (", "impl Fn("),
        ("# [", "#["),
    ] {
        text = text.replace(loose, tight);
    }
    text
}

/// Keeps what is part of the surface: `non_exhaustive`, `must_use`, derived traits.
fn kept(attributes: &[Attribute]) -> Vec<Attribute> {
    let wanted = ["non_exhaustive", "must_use", "derive"];
    let is_wanted = |a: &&Attribute| wanted.iter().any(|name| a.path().is_ident(name));
    attributes.iter().filter(is_wanted).cloned().collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The lines of a type.
fn item_lines(item: &Item, names: &BTreeSet<String>, lines: &mut Vec<String>) {
    let is_exported = |ident: &syn::Ident| names.contains(&ident.to_string());
    match item {
        Item::Struct(item) if is_exported(&item.ident) => {
            let attributes = kept(&item.attrs);
            let name = &item.ident;
            lines.push(format!("{name}: {}struct", spaced(&attributes)));
            for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                let ident = field.ident.as_ref().expect("a field has a name");
                lines.push(format!("{name}: {ident}: {}", text(&field.ty)));
            }
        }
        Item::Enum(item) if is_exported(&item.ident) => {
            let name = &item.ident;
            lines.push(format!("{name}: {}enum", spaced(&kept(&item.attrs))));
            for variant in &item.variants {
                let fields = text(&variant.fields);
                lines.push(format!("{name}: {}{fields}", variant.ident));
            }
        }
        Item::Type(item) if is_exported(&item.ident) => {
            lines.push(format!("{}: type = {}", item.ident, text(&item.ty)));
        }
        Item::Fn(item) if is_public(&item.vis) && is_exported(&item.sig.ident) => {
            lines.push(text(&item.sig));
        }
        Item::Impl(item) => impl_lines(item, names, lines),
        _ => {}
    }
}

fn spaced(attributes: &[Attribute]) -> String {
    attributes.iter().flat_map(|attribute| [text(attribute), " ".to_owned()]).collect()
}

fn impl_lines(item: &syn::ItemImpl, names: &BTreeSet<String>, lines: &mut Vec<String>) {
    let target = text(&item.self_ty);
    let base = match &*item.self_ty {
        Type::Reference(reference) => text(&reference.elem),
        _ => target.clone(),
    };
    let base = base.split('<').next().unwrap_or_default().to_owned();
    if let Some((path, _)) = &item.trait_ {
        let of = text(path);
        // From an exported type into one of the standard library is part of the surface, too.
        let is_from = names.iter().any(|name| of == format!("From<{name}>"));
        if names.contains(&base) || is_from {
            let generics = text(&item.generics);
            lines.push(format!("{base}: impl{generics} {of} for {target}"));
        }
        return;
    }
    if !names.contains(&base) {
        return;
    }
    let function_line = |function: &ImplItemFn| {
        let attributes = spaced(&kept(&function.attrs));
        format!("{base}: {attributes}{}", text(&function.sig))
    };
    for member in &item.items {
        match member {
            ImplItem::Fn(function) if is_public(&function.vis) => {
                lines.push(function_line(function));
            }
            ImplItem::Macro(call) => {
                lines.extend(shared_methods(&text(&call.mac.path)).iter().map(function_line));
            }
            _ => {}
        }
    }
}

/// The methods that a macro of `builder.rs` stands for. Their bodies are empty.
fn shared_methods(name: &str) -> Vec<ImplItemFn> {
    let items = parsed(&root().join("src/builder.rs")).items;
    let body = items.into_iter().find_map(|item| match item {
        Item::Macro(item) if item.ident.as_ref().is_some_and(|ident| ident == name) => {
            item.mac.tokens.into_iter().find_map(braced)
        }
        _ => None,
    });
    let body = body.unwrap_or_else(|| panic!("{name}! is not a macro of builder.rs"));
    let mut items = TokenStream::new();
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            // `$(#[$doc])*`
            TokenTree::Punct(punct) if punct.as_char() == '$' => drop(tokens.by_ref().nth(1)),
            token if braced(token.clone()).is_some() => items.extend(quote!({})),
            token => items.extend([token]),
        }
    }
    let block: ItemImpl = syn::parse2(quote!(impl Builder { #items })).unwrap();
    let function = |item| match item {
        ImplItem::Fn(function) => function,
        _ => panic!("{name}! has something else than functions"),
    };
    block.items.into_iter().map(function).collect()
}

/// Returns the tokens within braces.
fn braced(token: TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

fn keep(names: &mut BTreeSet<String>, ident: &syn::Ident) {
    names.insert(ident.to_string());
}

/// The names that a module exports, and the lines of those that it takes from the floors below.
fn exports(file: &Path, lines: &mut Vec<String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in parsed(file).items {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                let mut these = BTreeSet::new();
                exported(&item.tree, &mut these);
                let first = text(&item.tree);
                if first.starts_with("xfskit_") {
                    lines.extend(these.iter().map(|name| format!("{name}: re-exported, {first}")));
                }
                names.extend(these);
            }
            Item::Struct(item) if is_public(&item.vis) => keep(&mut names, &item.ident),
            Item::Enum(item) if is_public(&item.vis) => keep(&mut names, &item.ident),
            Item::Type(item) if is_public(&item.vis) => keep(&mut names, &item.ident),
            Item::Fn(item) if is_public(&item.vis) => keep(&mut names, &item.sig.ident),
            _ => {}
        }
    }
    names
}

/// The public modules of the root, but `raw`.
fn public_modules() -> Vec<String> {
    let items = parsed(&root().join("src/lib.rs")).items;
    let name = |item| match item {
        Item::Mod(item) if is_public(&item.vis) => Some(item.ident.to_string()),
        _ => None,
    };
    items.into_iter().filter_map(name).filter(|name| name != "raw").collect()
}

/// The files of a module, its own first.
fn files_of(module: &str) -> Vec<PathBuf> {
    let source = root().join("src");
    let (file, dir) = (source.join(format!("{module}.rs")), source.join(module));
    let mut files = vec![if file.exists() { file } else { dir.join("mod.rs") }];
    if dir.exists() {
        modules(&dir, &mut files);
    }
    files
}

fn item_lines_of(files: &[PathBuf], names: &BTreeSet<String>, lines: &mut Vec<String>) {
    for file in files {
        parsed(file).items.iter().for_each(|item| item_lines(item, names, lines));
    }
}

fn surface() -> String {
    let source = root().join("src");
    let mut lines = vec!["mod raw".to_owned()];
    let names = exports(&source.join("lib.rs"), &mut lines);
    let mut rest = Vec::new();
    modules(&source, &mut rest);
    for module in public_modules() {
        let files = files_of(&module);
        rest.retain(|file| !files.contains(file));
        let mut own = Vec::new();
        let own_names = exports(&files[0], &mut own);
        item_lines_of(&files, &own_names, &mut own);
        lines.push(format!("mod {module}"));
        lines.extend(own.into_iter().map(|line| format!("{module}::{line}")));
        // What the module adds to the types of the root.
        let others = names.difference(&own_names).cloned().collect();
        item_lines_of(&files, &others, &mut lines);
    }
    item_lines_of(&rest, &names, &mut lines);
    lines.sort();
    lines.dedup();
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_public_surface_is_the_one_that_is_written_down() {
    let path = root().join("SURFACE.txt");
    let now = surface();
    if std::env::var_os("XFSKIT_RENEW").is_some_and(|value| value == "1") {
        std::fs::write(&path, &now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differences = |from: &str, other: &str, sign: &'static str| -> String {
        let other: BTreeSet<_> = other.lines().collect();
        let lines = from.lines().filter(|line| !other.contains(line));
        lines.flat_map(|line| [sign, line, "\n"]).collect()
    };
    assert!(
        now == written,
        "the public surface of `xfskit` has changed:\n{}{}If that is intended, renew the listing: \
         XFSKIT_RENEW=1 cargo test -p xfskit --test surface",
        differences(&written, &now, "- "),
        differences(&now, &written, "+ "),
    );
    assert!(now.contains("Volume: fn open("), "the listing has the methods of types");
    assert!(now.contains("md::Array: fn open("), "the listing has the types of modules");
    assert!(now.contains("md::fn examine<"), "the listing has the functions of modules");
}
