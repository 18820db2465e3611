#include "lib/send/mailbox/store_content.h"

#include <utility>

namespace pen::mailbox {

mail::DeliveryStatus would_do(const Work& work) {
  std::string where = work.target.shown;
  if (where.empty()) where = work.target.form == Form::maildir ? "maildir" : "mailbox";
  if (work.command) where = "command: " + work.command->shown();
  return mail::make_status(mail::Action::delivered, "2.0.0", "delivers to " + where);
}

mail::DeliveryStatus store_content(const Work& work, JobStream& job, const Store& store) {
  const auto called_off = [&] { return job.called_off(); };
  const auto chunks = [&] { return job.read(); };
  if (work.message.size > kWholeContent) return store(work.target, work.message, chunks, called_off);
  std::string whole;
  whole.reserve(work.message.size);
  for (;;) {
    auto chunk = job.read();
    if (!chunk) return trouble("4.3.0", chunk.error().message()).status;
    if (chunk->empty()) break;
    whole += *chunk;
  }
  std::string_view rest = whole;
  const auto once = [&]() -> Result<std::string_view> { return std::exchange(rest, std::string_view{}); };
  return store(work.target, work.message, once, called_off);
}

}  // namespace pen::mailbox
