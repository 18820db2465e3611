#pragma once
/// The macros of SPF records: %{d}, %{ir}, %{l1r-} and so on.
///
/// Use:     if (is_domain_spec(text)) name = expand(text, values);
/// Bounds:  none of its own: the caller limits the text and the values.
/// Source:  RFC 7208 section 7. Pure.
#include <string>
#include <string_view>

#include "lib/base/network.h"
#include "lib/base/time.h"

namespace pen::spf {

struct MacroValues {
  std::string sender, domain;  // sender: local@domain
  std::string helo, receiver;
  std::string validated = "unknown";  // p
  IpAddress client;
  WallTime now{};
};

/// Whether macros in it can be expanded. c, r and t count only in an explanation.
bool is_macro_string(std::string_view text, bool explanation = false);
/// The same, and its end is one of a domain: a macro, or a dot and a label that is no number.
bool is_domain_spec(std::string_view text);
/// Whether the name of the client is needed: values.validated.
bool names_client(std::string_view text);
/// The text must be a macro string.
std::string expand(std::string_view text, const MacroValues& values);
/// A domain from a macro string: without a final dot, and of more than 253 bytes the last labels that fit.
std::string expand_domain(std::string_view text, const MacroValues& values);

}  // namespace pen::spf
