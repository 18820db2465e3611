#include "lib/receive/milter/draft.h"

namespace pen::milter {

async::Task<Result<std::shared_ptr<const Draft>>> Draft::of(async::HandlerPool& pool, const intake::Body& body,
                                                            std::uint64_t front) {
  auto draft = std::make_shared<Draft>();
  draft->own = &body;
  intake::HeldContent content(pool, body);
  std::string head;
  for (;;) {
    auto piece = co_await content.next();
    if (!piece) co_return std::unexpected(std::move(piece).error());
    const bool last = content.left() == 0;
    head += *piece;
    auto parsed = mail::HeaderFields::parse(head);
    // A header without an empty line ends at the first whole line that is no field.
    const auto lines_end = head.rfind("\r\n");
    const bool ended = parsed.separator || (lines_end != std::string::npos && parsed.size < lines_end);
    if (ended || last) {
      if (parsed.size > kMaxHeader) break;
      draft->fields = std::move(parsed.fields);
      draft->fields.hide_trace(front);
      draft->own_from = parsed.size;
      co_return draft;
    }
    if (head.size() > kMaxHeader) break;
  }
  co_return fail(MilterError::too_much, "header");
}

}  // namespace pen::milter
