#include "lib/queue/queue_log/version_check.h"

#include <algorithm>

#include "lib/queue/queue_log/error.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/posix_storage.h"

namespace pen::queue_log {

Result<void> check_versions(const std::string& directory) {
  auto storage = PosixStorage::open_to_read(directory);
  if (!storage && storage.error().is_errno(ENOENT)) return {};
  if (!storage) return fail(std::move(storage).error());
  PEN_TRY_ASSIGN(const auto slots, (*storage)->list());
  for (const auto& info : slots) {
    if (!info.usable) continue;
    const bool positions = info.slot == kPositionsSlot;
    const std::uint64_t step = positions ? kPositionsCopy : kDataStart;
    for (std::uint64_t copy = 0; copy < (positions ? 2U : 1U); ++copy) {
      if (copy * step >= info.size) break;
      std::string bytes(std::min(step, info.size - copy * step), '\0');
      const auto got =
          (*storage)->read(info.slot, copy * step, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
      // Damage is not another version; and a segment may be given back while this looks.
      if (!got && (got.error().is_errno(EIO) || got.error().is_errno(ENOENT))) continue;
      if (!got) return got;
      const auto version =
          positions ? other_version_of_positions(as_bytes(bytes)) : other_version_of_header(as_bytes(bytes));
      if (version) return fail(QueueLogError::other_version, slot_name(info.slot) + " " + tell_other_version(*version));
    }
  }
  return {};
}

}  // namespace pen::queue_log
