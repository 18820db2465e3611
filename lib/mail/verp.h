#pragma once
/// VERP: a sender address for each recipient, so that returned mail names the recipient in its own address.
///
/// Use:     verp_sender("owner@lists.example", "+=", "jo@there.example")   // owner+jo=there.example@lists.example
///          verp_address("owner+jo=there.example@lists.example", "+=")      // {owner@lists.example, jo@there.example}
///          if (!verp_delimiters(given, settings.verp_delimiter_filter)) refuse;
/// Rules:   the recipient is the one that the sender knows: before aliases (Recipient::shown_original()).
/// Pure; any thread.
/// Source:  Postfix's VERP_README and its parameter XVERP of MAIL; docs/verp.md.
#include <optional>
#include <string>
#include <string_view>

namespace pen::mail {

/// The sender for this recipient. delimiters: two characters. The null sender stays null.
std::string verp_sender(std::string_view sender, std::string_view delimiters, std::string_view recipient);
/// What an address of that form is made of; nullopt: it is no such address. Nothing is proven: anybody can write one,
/// and an address with an extension may look so. The sender is taken to have none of the first delimiter, and the
/// recipient's domain none of the second.
struct VerpAddress {
  std::string sender, recipient;
};
std::optional<VerpAddress> verp_address(std::string_view address, std::string_view delimiters);
/// The reply that refuses XVERP in MAIL; empty: it is good, or not there. given: two delimiters, or what stood there.
std::string verp_refusal(std::string_view sender, std::string_view given, std::string_view allowed);
/// Two characters of those that are allowed.
bool verp_delimiters(std::string_view text, std::string_view allowed);

}  // namespace pen::mail
