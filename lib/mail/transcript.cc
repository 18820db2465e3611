#include "lib/mail/transcript.h"

#include <fmt/format.h>

#include "lib/base/text.h"

namespace pen::mail {
void Transcript::add(bool ours, std::string_view line) {
  constexpr std::size_t kFewLines = 480;  // of one message with one recipient
  constexpr std::size_t kRoom = 10;       // for the mark in front, the dots of a line cut short, and the line feed
  ++lines_;
  if (heard_) heard_(ours, line);
  const bool first = tail_.empty() && head_.size() + line.size() + kRoom <= kMost / 2;
  std::string own;
  std::string& text = first ? head_ : own;
  if (first && head_.empty()) head_.reserve(kFewLines);
  text += ours ? "Out: " : "In:  ";
  const std::size_t start = text.size();
  text += line.substr(0, kMaxLine);
  // Each byte is written, whatever it is: many at a time.
  for (std::size_t i = start; i < text.size(); ++i) text[i] = text[i] >= 32 && text[i] < 127 ? text[i] : '?';
  if (line.size() > kMaxLine) text += "...";
  text += '\n';
  if (first) return;
  tail_bytes_ += own.size();
  tail_.push_back(std::move(own));
  while (tail_bytes_ > kMost / 2) {
    tail_bytes_ -= tail_.front().size();
    tail_.pop_front();
    ++left_out_;
  }
}

void Transcript::command(std::string_view line) { add(shown_.side() == Side::client, shown_.command(line)); }

void Transcript::response() { add(shown_.side() == Side::client, shown_.response()); }

void Transcript::reply(std::string_view line) { add(shown_.side() == Side::server, shown_.reply(line)); }

void Transcript::commands(std::string_view text) {
  for_each_line(text, [this](std::string_view line) { command(line); });
}

void Transcript::replies(std::string_view text) {
  for_each_line(text, [this](std::string_view line) { reply(line); });
}

std::string Transcript::text() const {
  std::string text = head_;
  if (left_out_ > 0) text += fmt::format("[{} lines left out]\n", left_out_);
  for (const auto& line : tail_) text += line;
  return text;
}

void Transcript::clear() {
  head_ = {};
  tail_ = {};
  tail_bytes_ = 0;
  lines_ = left_out_ = 0;
  errors_ = {};
}

}  // namespace pen::mail
