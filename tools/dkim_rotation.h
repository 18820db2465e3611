#pragma once
/// What pendkim rotate writes: the texts of the tables with a further key, which takes the place of others at a date.
///
/// Use:     keys = with_key(keys, name, "example.org:s202701:/etc/…");   senders = with_successor(senders, olds, name);
///          dates = with_dates(dates, olds, name, from);
/// Rules:   lines that it does not change stay as they are, with their comments.
/// Pure.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen::tools {

/// A further line at the end of a KeyTable.
std::string with_key(std::string_view table, std::string_view name, std::string_view value);
/// Behind the first of the old keys in each value of a SigningTable, the new one, with the same SIGNER. added: how many
/// lines have it now that had not.
std::string with_successor(std::string_view table, const std::vector<std::string>& olds, const std::string& name,
                           std::size_t& added);
/// The old keys sign until the date, the new one from then on. A date that was there goes.
std::string with_dates(std::string_view table, const std::vector<std::string>& olds, const std::string& name,
                       WallTime from);
/// "s202701" for a day of January 2027.
std::string selector_of(WallTime from);

}  // namespace pen::tools
