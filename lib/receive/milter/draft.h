#pragma once
/// A message as filters see it: the header as fields, and the body behind it. Filters that read share one draft; each
/// filter that changes something makes the next.
///
/// Use:     auto draft = co_await Draft::of(pool, *message.body(), front);   // after Message::hold_content()
///          for (auto& field : draft->fields.all()) …   HeldContent body = draft->body(pool);
/// Bounds:  kMaxHeader.
/// Errors:  too_much: the header is larger; of the spool file.
/// Thread:  the loop's. The message's own body must outlive it.
#include <cstdint>
#include <memory>

#include "lib/base/async/handler_pool.h"
#include "lib/mail/header_fields.h"
#include "lib/receive/intake/held_content.h"
#include "lib/receive/milter/protocol.h"

namespace pen::milter {

struct Draft {
  // More than any mail system writes; each message under way may hold so much.
  static constexpr std::size_t kMaxHeader = 1U << 20;

  mail::HeaderFields fields;
  /// A body that a filter has written; it begins with the empty line. nullptr: the message's own stands behind
  /// own_from.
  std::shared_ptr<const intake::Body> written;
  const intake::Body* own = nullptr;
  std::uint64_t own_from = 0;

  /// front: how many bytes of fields at the top came from here; filters do not see the Received: among them.
  static async::Task<Result<std::shared_ptr<const Draft>>> of(async::HandlerPool& pool, const intake::Body& body,
                                                              std::uint64_t front);
  intake::HeldContent body(async::HandlerPool& pool) const {
    constexpr std::uint64_t kEmptyLine = 2;
    return written ? intake::HeldContent(pool, *written, kEmptyLine) : intake::HeldContent(pool, *own, own_from);
  }
};

}  // namespace pen::milter
