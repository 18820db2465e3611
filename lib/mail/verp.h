#pragma once
/// VERP: a sender address for each recipient, so that what comes back says by its address whom it was for.
///
/// Use:     verp_sender("owner@lists.example", "+=", "jo@there.example")   // owner+jo=there.example@lists.example
///          if (!verp_delimiters(given, settings.verp_delimiter_filter)) refuse;
/// Rules:   the recipient is the one that the sender knows: before aliases (Recipient::shown_original()).
/// Pure; any thread.
/// Source:  Postfix's VERP_README and its parameter XVERP of MAIL; docs/verp.md.
#include <string>
#include <string_view>

namespace pen::mail {

/// The sender for this recipient. delimiters: two characters. The null sender stays null.
std::string verp_sender(std::string_view sender, std::string_view delimiters, std::string_view recipient);
/// Two characters of those that are allowed.
bool verp_delimiters(std::string_view text, std::string_view allowed);

}  // namespace pen::mail
