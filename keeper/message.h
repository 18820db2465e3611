#pragma once
/// What master says to its keeper: assignments in lines, as in sd_notify(3). Pure.
///
/// Use:     if (const auto said = parse(text)) …           // nullopt: nothing of it counts
/// Bounds:  kMostText bytes; a name of 1 to kMostName letters and digits. Whatever else a line says is for service
///          managers that show it, and is passed over.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pen::keeper {

// Master's longest has a status of 500 characters (master/notify.cc).
inline constexpr std::size_t kMostText = 4096;
// As many as service managers take.
inline constexpr std::size_t kMostName = 255;

struct Message {
  bool ready = false;     // READY=1: a start or a reload is done
  bool stopping = false;  // STOPPING=1: its end will be meant
  bool keeps = false;     // FDSTORE=1: the descriptor that comes with it, under this name
  bool forgets = false;   // FDSTOREREMOVE=1
  std::string name;       // FDNAME
};

/// nullopt: too long; no assignment; a descriptor to keep or forget without a name that can be given back.
std::optional<Message> parse(std::string_view text);

}  // namespace pen::keeper
