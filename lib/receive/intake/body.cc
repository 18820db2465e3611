#include "lib/receive/intake/body.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/check.h"

namespace pen::intake {

Body::Problem Body::problem() const {
  if (problem_ != Problem::none) return problem_;
  switch (content_.problem()) {
    case ContentProblem::too_large:
      return Problem::too_large;
    case ContentProblem::too_many_hops:
      return Problem::too_many_hops;
    case ContentProblem::too_many_fields:
      return Problem::too_many_fields;
    case ContentProblem::no_memory:
      return Problem::no_space;
    case ContentProblem::lookup_failed:
      return Problem::lookup_failed;
    case ContentProblem::refused:
      return Problem::refused;
    case ContentProblem::discarded:
      return Problem::discarded;
    case ContentProblem::none:
      break;
  }
  return Problem::none;
}

void BodyMemory::change(std::size_t from, std::size_t to) {
  used_ = used_ - from + to;
  read_limit_ = scarce() ? Body::kLeastDrain / 2 : 0;
}

std::string BodyMemory::spare() {
  if (scarce() || spares_.empty()) return {};
  std::string buffer = std::move(spares_.back());
  spares_.pop_back();
  return buffer;
}

void BodyMemory::keep_spare(std::string buffer) {
  if (scarce()) return spares_.clear();
  const bool fits = buffer.capacity() >= Body::kDrainAt && buffer.capacity() <= 2 * Body::kDrainAt;
  if (fits && spares_.size() < kSpares) spares_.push_back(std::move(buffer));
}

void Body::account() {
  const std::size_t now = content_.pending().capacity() + writing_;
  memory_.change(held_, now);
  held_ = now;
  if (memory_.headers_scarce() && content_.inspected() > kLeastHeader) content_.give_up();
  memory_.headers_ = memory_.headers_ - held_header_ + content_.inspected();
  held_header_ = content_.inspected();
}

bool Body::must_drain() {
  account();
  const std::size_t size = content_.pending().size();
  // The signature's size is not known before the header's end.
  if (signature_ && content_.in_header() && size < signing::MessageSignature::kMaxHeader) return false;
  if (size >= kDrainAt) return true;
  return memory_.scarce() && size >= kLeastDrain && size > queue_.inline_limit();
}

std::optional<async::File> Body::own_file() {
  Fd own(::fcntl(lease_->fd(), F_DUPFD_CLOEXEC, 0));
  if (own) return async::File(pool_, std::move(own));
  failed(Error::from_errno(errno));
  return std::nullopt;
}

void Body::failed(const Error& error) {
  const bool full = error.is_errno(ENOSPC) || error.is_errno(EDQUOT) || error.is_errno(EFBIG);
  problem_ = full ? Problem::no_space : Problem::write_failed;
  error_text_ = "spool file: " + error.message();
}

async::Task<void> Body::write_out(async::Until until, bool last) {
  show_signature();
  const auto piece = std::make_shared<std::string>(content_.take(last ? "" : memory_.spare()));
  if (problem() != Problem::none) co_return;  // the message will be refused: do not write it
  if (!lease_) {
    const std::uint64_t here = front_ + piece->size();
    LeaseAnswer answer = co_await queue_.lease(last ? here : std::max(declared_, here), until);
    if (answer.outcome != Enqueued::ok) {
      problem_ = answer.outcome == Enqueued::no_space ? Problem::no_space : Problem::unavailable;
      co_return;
    }
    lease_ = std::move(answer.lease);
  }
  if (!lease_->valid()) {  // the next qmgr accepts nothing under this lease
    problem_ = Problem::unavailable;
    co_return;
  }
  const auto file = own_file();
  if (!file) co_return;
  const std::uint64_t offset = content_offset() + written_;
  written_ += piece->size();
  writing_ = piece->capacity();
  account();
  const auto done = co_await file->pwrite(piece, offset);
  writing_ = 0;
  account();
  memory_.keep_spare(std::move(*piece));
  if (!done) failed(done.error());
}

async::Task<void> Body::sync() {
  const auto file = own_file();
  if (!file) co_return;
  if (const auto done = co_await file->sync(); !done) failed(done.error());
}

async::Task<void> Body::drain(async::Until until) { co_await write_out(until, false); }

void Body::complete() {
  if (complete_) return;
  complete_ = true;
  facts_ = content_.finish();
}

void Body::replace_in_header(std::size_t at, std::size_t size, std::string_view by) {
  PEN_CHECK(complete_ && !ended_ && !lease_);
  PEN_CHECK(at + size <= facts_.header_size);
  content_.replace(at, size, by);
  for (std::string_view rest = by; !rest.empty();) {
    const auto end = std::min(rest.find("\r\n"), rest.size());
    facts_.longest_line = std::max<std::uint64_t>(facts_.longest_line, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  facts_.size += by.size() - size;
  facts_.header_size += by.size() - size;
}

async::Task<void> Body::end(async::Until until) {
  if (std::exchange(ended_, true)) co_return;
  complete();
  if (problem() != Problem::none) co_return;
  if (lease_) {
    co_await write_out(until, true);
    co_return;
  }
  show_signature();
  if (front_ + content_.pending().size() > queue_.inline_limit()) co_await write_out(until, true);
}

void Body::show_signature() {
  if (!signature_ || shown_) return;
  shown_ = ended_;
  if (signature_->begun()) {
    if (forming_) bring_into_form();
    return signature_->more(content_.pending());
  }
  const bool lines_fit = form_->lines_fit(form_facts());
  if (signature_->decide(content_.pending(), !content_.in_header(), lines_fit)) {
    if (signature_->seals()) form_->keep_eight_bit();
    forming_ = true;
    bring_into_form();
  }
  front_ = signature_->begin(content_.pending());
}

AnyHostForm::Facts Body::form_facts() const {
  if (complete_) return {facts_.longest_line, facts_.eight_bit_body};
  return {content_.facts_so_far().longest_line(), content_.facts_so_far().eight_bit_body()};
}

void Body::bring_into_form() {
  std::string piece = content_.take();
  form_->next(piece, form_facts(), ended_);
  content_.replace_pending(std::move(piece));
  if (!ended_) return;
  broken_lines_ = form_->broken();
  converted_ = form_->converted();
  std::move(*form_).settle(facts_);
}

async::Task<void> Body::finish_signature(async::Until until) {
  unsealed_ = signature_->unsealed();
  if (!signature_->wanted()) co_return;
  // The keys take their time. The signature outlives the task, if that is given up.
  const std::shared_ptr<signing::MessageSignature> signature = std::move(signature_);
  Result<std::string> fields = std::string();
  if (signature->keys_elsewhere())
    fields = co_await signature->finish_elsewhere(until);
  else
    fields = co_await pool_.run([signature] { return signature->finish(); });
  if (!fields) {
    problem_ = Problem::not_signed;
    error_text_ = fields.error().message();
    co_return;
  }
  signed_ = !signature->seals();
  signed_by_ = signature->domain();
  front_ = 0;
  facts_.size += fields->size();
  facts_.header_size += fields->size();
  // Its lines are short, and no other fact can change.
  if (!lease_) {
    content_.put_in_front(*fields);
    co_return;
  }
  const auto file = own_file();
  if (!file) co_return;
  const auto done = co_await file->pwrite(std::make_shared<std::string>(*std::move(fields)), lease_->content_offset());
  if (!done) failed(done.error());
}

void Body::check_size() {
  if (problem() != Problem::none) return;
  const std::uint64_t held = lease_ ? written_ : content_.pending().size();
  if (held == facts_.size) return;
  problem_ = Problem::write_failed;
  error_text_ =
      fmt::format("spool file: {} bytes of content, but {} were counted: an error of this program", held, facts_.size);
}

async::Task<void> Body::finish(async::Until until) {
  if (!ended_) co_await end(until);
  check_size();
  if (signature_ && problem() == Problem::none) co_await finish_signature(until);
  if (lease_ && problem() == Problem::none) co_await sync();
}

}  // namespace pen::intake
