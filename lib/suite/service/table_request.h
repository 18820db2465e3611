#pragma once
/// What a program asks of the process that stays root when it may not open a table itself (table_opener.h): one packet
/// of fixed size, and one in answer.
///
/// Form:    "PEN" and a version; a mark of the kind; the table's path, ended and filled up with zero bytes. The answer:
///          the same mark and version, and errno in four bytes, least significant first; 0: the file comes along.
/// Pure; fuzz/become_fuzz.cc.
#include <optional>
#include <string>
#include <string_view>

namespace pen::service {

inline constexpr std::size_t kMaxTablePath = 4095;  // PATH_MAX without its zero byte
inline constexpr std::size_t kTableRequestBytes = 4 + 4 + kMaxTablePath + 1;
inline constexpr std::size_t kTableAnswerBytes = 4 + 4;
// What a program says to the helper at its start that asks for tables alone.
inline constexpr std::string_view kTablesOnly = "tables";

/// The path is absolute and not longer than kMaxTablePath.
std::string encode_table_request(std::string_view path);
/// The path. nullopt: any other size or form.
std::optional<std::string> parse_table_request(std::string_view bytes);

/// error: errno, or 0.
std::string encode_table_answer(int error);
std::optional<int> parse_table_answer(std::string_view bytes);

}  // namespace pen::service
