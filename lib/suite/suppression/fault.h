#pragma once
/// Whether a refusal for good says that the address is of no use, for the suppression list: it does not exist, or is
/// disabled. Blocks, policies and full mailboxes say nothing of it.
///
/// Use:     switch (fault_of(status.dsn, words)) …      // words: the reply
/// Rules:   the status code counts first; a text that speaks of spam, blocks or room is never a fault, whatever its
///          code, because hosts give 5.1.1 for those too.
/// Source:  RFC 3463 sections 3.2 and 3.3; replies of large receivers in fault_test.cc.
#include <cstdint>
#include <string_view>

namespace pen::suppression {

/// likely: it counts if it is said on several days.
enum class Fault : std::uint8_t { none, likely, certain };

/// dsn: "5.1.1"; only codes of class 5 are faults.
Fault fault_of(std::string_view dsn, std::string_view words);

}  // namespace pen::suppression
