//! The attribute `#[truecount_bench::bench]`; `truecount-bench` documents it.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, ItemFn, LitStr, Token, parse_macro_input};

#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    group: Option<LitStr>,
    arguments: Option<Expr>,
    setup: Option<Expr>,
    teardown: Option<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let twice = || syn::Error::new(key.span(), format!("`{key}` is given twice"));
            match key.to_string().as_str() {
                "name" if options.name.replace(input.parse()?).is_some() => return Err(twice()),
                "group" if options.group.replace(input.parse()?).is_some() => return Err(twice()),
                "args" if options.arguments.replace(input.parse()?).is_some() => {
                    return Err(twice());
                }
                "setup" if options.setup.replace(input.parse()?).is_some() => return Err(twice()),
                "teardown" if options.teardown.replace(input.parse()?).is_some() => {
                    return Err(twice());
                }
                "name" | "group" | "args" | "setup" | "teardown" => {}
                _ => {
                    return Err(syn::Error::new(
                        key.span(),
                        "not an option: name = \"…\", group = \"…\", args = […], setup = FUNCTION, teardown = FUNCTION",
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// A benchmark: see the documentation of `truecount-bench`.
#[proc_macro_attribute]
pub fn bench(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(item as ItemFn);
    registered(&options, &function)
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote!(#function #error)
        })
        .into()
}

fn registered(options: &Options, function: &ItemFn) -> syn::Result<Tokens> {
    let signature = &function.sig;
    let refuse = |message: &str| Err(syn::Error::new_spanned(signature, message));
    if signature.asyncness.is_some() || !signature.generics.params.is_empty() {
        return refuse("a benchmark is an ordinary function without generic parameters");
    }
    let takes = signature.inputs.len();
    let gets = usize::from(options.arguments.is_some() || options.setup.is_some());
    if takes != gets {
        return refuse(if takes == 0 {
            "with `args` or `setup` a benchmark takes one value: what they give"
        } else if gets == 0 {
            "a benchmark takes nothing, or one value of `args = […]` or `setup = FUNCTION`"
        } else {
            "a benchmark takes one value (a tuple, where it needs several)"
        });
    }
    let path = &signature.ident;
    let name = options
        .name
        .as_ref()
        .map_or_else(|| path.to_string(), LitStr::value);
    let group = match &options.group {
        Some(group) => quote!(::core::option::Option::Some(#group)),
        None => quote!(::core::option::Option::None),
    };
    let run = if gets == 0 {
        quote!(|(): ()| #path())
    } else {
        quote!(|input| #path(input))
    };
    let teardown = match &options.teardown {
        Some(teardown) => quote!(|output| { (#teardown)(output); }),
        None => quote!(::core::mem::drop),
    };
    let cases = match (&options.arguments, &options.setup) {
        (None, None) => quote!(bencher.case("", || (), #run, #teardown);),
        (None, Some(setup)) => quote!(bencher.case("", || (#setup)(), #run, #teardown);),
        (Some(arguments), setup) => {
            let input = match setup {
                Some(setup) => quote!((#setup)(::core::clone::Clone::clone(&argument))),
                None => quote!(::core::clone::Clone::clone(&argument)),
            };
            quote! {
                for argument in #arguments {
                    let label = ::std::format!("{:?}", argument);
                    bencher.case(&label, || #input, #run, #teardown);
                }
            }
        }
    };
    Ok(quote! {
        #function
        const _: () = {
            fn run(bencher: &mut ::truecount_bench::Bencher<'_>) {
                #cases
            }
            ::truecount_bench::__private::submit! {
                ::truecount_bench::Benchmark::__new(::core::module_path!(), #group, #name, run)
            }
        };
    })
}
