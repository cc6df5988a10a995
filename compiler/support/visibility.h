#pragma once

/// Before the name of a namespace: what is declared in it is part of the C++ API, which a shared library exports.
/// Everything else is hidden in one.
#if defined(__GNUC__)
#define ASTATIDE_PUBLIC [[gnu::visibility("default")]]
#else
#define ASTATIDE_PUBLIC
#endif
