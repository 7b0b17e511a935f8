//! The translation layers that a profile can name.
//!
//! # Model
//! The macro `register_layers!` takes one line for each layer and makes two enums of them: `Translation`, the options as a
//! profile has them, and `AnyLayer`, the layers themselves. Each method of an enum calls that of its variant, so that no
//! other code has to know all layers.
//!
//! # Invariants
//! - a saved state numbers the layers by their lines: a new layer's line comes last.

/// Makes an enum of layers a `Layer`: each method calls that of the variant.
macro_rules! dispatch_layer {
    ($layers:ident: $($variant:ident),+) => {
        impl Layer for $layers {
            fn pages(&self) -> u32 {
                match self { $($layers::$variant(layer) => layer.pages(),)+ }
            }

            #[inline]
            fn holds(&self, page: LogicalPage) -> bool {
                match self { $($layers::$variant(layer) => layer.holds(page),)+ }
            }

            #[inline]
            fn prefetch(&self, geometry: &FlashGeometry, pages: &[LogicalPage]) -> u32 {
                match self { $($layers::$variant(layer) => layer.prefetch(geometry, pages),)+ }
            }

            #[inline]
            fn accepts(&self, pages: Pages) -> Result<(), IoError> {
                match self { $($layers::$variant(layer) => layer.accepts(pages),)+ }
            }

            #[inline]
            fn write<T: Timing>(
                &mut self,
                flash: &mut Flash<T>,
                pages: Pages,
                stream: u16,
                at: Nanos,
            ) -> Result<Nanos, Exhausted> {
                match self { $($layers::$variant(layer) => layer.write(flash, pages, stream, at),)+ }
            }

            #[inline]
            fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
                match self { $($layers::$variant(layer) => layer.read(flash, pages, at),)+ }
            }

            fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
                match self { $($layers::$variant(layer) => layer.trim(flash, pages),)+ }
            }

            fn supersede<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
                match self { $($layers::$variant(layer) => layer.supersede(flash, pages),)+ }
            }

            fn idle<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
                match self { $($layers::$variant(layer) => layer.idle(flash, from, until),)+ }
            }

            fn power_cut(&mut self) {
                match self { $($layers::$variant(layer) => layer.power_cut(),)+ }
            }
        }
    };
}
pub(super) use dispatch_layer;

/// Makes `Translation` and `AnyLayer` of the lines `"section" Variant(Options)`.
macro_rules! register_layers {
    ($($(#[$doc:meta])* $section:literal $variant:ident($options:ty),)+) => {
        /// `[translation]`: one of the layers, as a table of its options.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Translation {
            $($(#[$doc])* #[serde(rename = $section)] $variant($options),)+
        }

        /// One of the translation layers.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) enum AnyLayer {
            $($variant(<$options as LayerOptions>::Layer),)+
        }

        dispatch_layer!(AnyLayer: $($variant),+);

        impl Translation {
            /// The name of its section, behind `translation.`
            pub(crate) fn section(&self) -> &'static str {
                match self { $(Translation::$variant(_) => $section,)+ }
            }

            /// What people call the layer.
            pub(crate) fn kind(&self) -> &'static str {
                match self { $(Translation::$variant(_) => <$options as LayerOptions>::KIND,)+ }
            }

            /// As [`LayerOptions::for_array`].
            pub(crate) fn for_array(
                &self,
                logical_pages: u32,
                reliability: Option<Reliability>,
            ) -> Translation {
                match self {
                    $(Translation::$variant(options) => {
                        Translation::$variant(options.for_array(logical_pages, reliability))
                    })+
                }
            }

            /// As [`LayerOptions::extra_blocks`].
            pub(crate) fn extra_blocks(&self) -> u32 {
                match self { $(Translation::$variant(options) => LayerOptions::extra_blocks(options),)+ }
            }

            /// As [`LayerOptions::check_profile`].
            pub(crate) fn check_profile(&self, surroundings: &Surroundings) -> Result<(), Illegal> {
                match self { $(Translation::$variant(options) => options.check_profile(surroundings),)+ }
            }

            /// As [`LayerOptions::check`].
            pub(crate) fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
                match self { $(Translation::$variant(options) => LayerOptions::check(options, geometry),)+ }
            }

            /// As [`LayerOptions::build`].
            pub(crate) fn build(&self, geometry: &FlashGeometry) -> Result<AnyLayer, OptionsError> {
                match self {
                    $(Translation::$variant(options) => options.build(geometry).map(AnyLayer::$variant),)+
                }
            }

            /// What the layer decides about the device as a host sees it.
            pub fn structure(&self) -> LayerStructure {
                match self { $(Translation::$variant(options) => options.structure(),)+ }
            }

            /// As [`LayerOptions::memory`].
            pub(crate) fn memory(&self, geometry: &FlashGeometry) -> f64 {
                match self { $(Translation::$variant(options) => options.memory(geometry),)+ }
            }

            /// As [`LayerOptions::complete`].
            pub(crate) fn complete<T: Timing>(
                &self,
                layer: &mut AnyLayer,
                flash: &Flash<T>,
            ) -> Result<(), String> {
                match (self, layer) {
                    $((Translation::$variant(options), AnyLayer::$variant(layer)) => {
                        options.complete(layer, flash)
                    })+
                    _ => Err("the translation layer is another one".to_owned()),
                }
            }
        }
    };
}
pub(super) use register_layers;
