#pragma once
/// The query_filter of a mongodb: table: a document in JSON, with parts of the key in it.
///
/// Use:     template.expand(key, quote_in_filter)          // a Quote: `out` is the filter so far
/// Promise: a part of a key is a part of one string in the document, whatever bytes it has, and that string is a value
///          that is compared with something. Every other place is refused: outside strings, in the name of a field, and
///          below operators that read more from a string ($where, $regex, $expr, …), for there a key would be a
///          program, a pattern or another field.
/// Source:  RFC 8259 section 7; MongoDB's query operators. Pure; any thread.
#include <string>
#include <string_view>

namespace pen::map {

/// False, and the filter is as it was: the part cannot stand at the filter's end.
bool quote_in_filter(std::string_view part, std::string& filter);
/// Why a part cannot stand there, for the administrator; empty: it can.
std::string misplaced_in_filter(std::string_view filter);

}  // namespace pen::map
