#include "tools/message_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/mail/header.h"

namespace pen::tools {
namespace {

constexpr std::size_t kPiece = 256 * 1024;

/// Prints the content. Returns the error that ended it; empty: all was printed.
std::string print_content(LineOutput& out, const MessageSource& source, std::uint64_t from, std::uint64_t end) {
  std::string fault;
  while (from < end && fault.empty()) {
    const auto piece = source.read(from, std::min<std::uint64_t>(kPiece, end - from));
    if (!piece) {
      fault = source.content + " cannot be read: " + piece.error().message();
    } else if (piece->empty()) {
      fault = fmt::format("{} is cut short, after {} of {} bytes", source.content, from, source.size);
    } else {
      out.put(*piece);
      from += piece->size();
    }
  }
  out.end();
  return fault;
}

std::string notify_words(std::uint8_t bits) {
  if ((bits & mail::notify::kNever) != 0) return "never";
  std::string out;
  for (const auto& [bit, word] :
       {std::pair{mail::notify::kSuccess, "success"}, std::pair{mail::notify::kFailure, "failure"},
        std::pair{mail::notify::kDelay, "delay"}})
    if ((bits & bit) != 0) out += (out.empty() ? "" : ",") + std::string(word);
  return out;
}

/// NOTIFY and RET as the numbers that Postfix keeps. Empty: nothing was said.
std::string notify_flags(std::uint8_t bits) {
  int flags = 0;
  for (const auto& [bit, flag] : {std::pair{mail::notify::kNever, 1}, std::pair{mail::notify::kSuccess, 2},
                                  std::pair{mail::notify::kFailure, 4}, std::pair{mail::notify::kDelay, 8}})
    if ((bits & bit) != 0) flags |= flag;
  return flags == 0 ? "" : std::to_string(flags);
}
std::string ret_flags(mail::Ret ret) { return ret == mail::Ret::full ? "1" : ret == mail::Ret::headers ? "2" : ""; }

/// Prints an envelope as postcat prints the records of a queue file.
class EnvelopeLines {
 public:
  EnvelopeLines(LineOutput& out, bool types) : out_(out), types_(types) {}

  void record(Record type, std::string_view label, const std::string& value) {
    if (types_) out_.show_type(type);
    out_.put(std::string(label) + ": " + readable(value) + "\n");
  }
  /// Nothing of an empty value.
  void attribute(std::string_view name, const std::string& value) {
    if (!value.empty()) record(Record::attribute, "named_attribute", std::string(name) + "=" + value);
  }
  void yes(std::string_view name, bool is) { attribute(name, is ? "yes" : ""); }

  void message(const mail::Envelope& e, bool gateway, const std::string& full_name);
  void client(const mail::Client& client);

 private:
  LineOutput& out_;
  bool types_;
};

void EnvelopeLines::message(const mail::Envelope& e, bool gateway, const std::string& full_name) {
  record(Record::arrival, "message_arrival_time", local_text(e.arrival, "%a %b %e %H:%M:%S %Y"));
  attribute("envelope_id", e.envid);
  attribute("ret_flags", ret_flags(e.ret));
  if (!full_name.empty()) record(Record::full_name, "sender_fullname", full_name);
  record(Record::sender, "sender", e.sender);
  attribute("encoding", e.body_type == mail::BodyType::seven_bit        ? "7bit"
                        : e.body_type == mail::BodyType::eight_bit_mime ? "8bit"
                        : e.body_type == mail::BodyType::binary_mime    ? "binary"
                                                                        : "");
  yes("smtputf8", e.smtputf8);
  if (e.requiretls != mail::RequireTls::unspecified)
    attribute("requiretls", e.requiretls == mail::RequireTls::yes ? "yes" : "no");
  if (!e.verp.empty()) record(Record::verp, "verp_delimiters", e.verp);
  attribute("tenant", e.tenant);
  if (e.priority != 0) attribute("priority", std::to_string(e.priority));
  if (e.release != WallTime{}) attribute("release_time", rfc5322_date(e.release));
  attribute("transport", e.transport);
  if (!e.filter.empty()) record(Record::filter, "content_filter", e.filter);
  yes("gateway", gateway);
  yes("probe", mail::is_probe(e.purpose));
  yes("traced", e.purpose == mail::Purpose::traced);
}

void EnvelopeLines::client(const mail::Client& client) {
  attribute("client_name", client.name);
  attribute("reverse_client_name", client.reverse_name);
  attribute("client_address", client.address);
  if (client.port != 0) attribute("client_port", std::to_string(client.port));
  attribute("helo_name", client.helo);
  attribute("protocol_name", client.protocol);
  attribute("sasl_method", client.sasl_method);
  attribute("sasl_username", client.sasl_username);
  attribute("sasl_sender", client.sasl_sender);
}

void print_envelope(LineOutput& out, const MessageSource& source, bool types) {
  EnvelopeLines lines(out, types);
  lines.record(Record::size, "message_size", fmt::format("{:>15}", source.size));
  if (!source.has_envelope) return;
  const mail::Envelope& e = source.envelope;
  lines.message(e, source.gateway, source.full_name);
  lines.client(e.client);
  for (const auto& r : e.recipients) {
    lines.attribute("notify_flags", notify_flags(r.notify));
    lines.attribute("dsn_orig_rcpt", r.orcpt);
    lines.record(Record::original_recipient, "original_recipient", r.shown_original());
    lines.record(Record::recipient, "recipient", r.address);
  }
}

/// The words of one of several values; "": the first, which says nothing.
std::string_view word_of(auto value, std::initializer_list<std::string_view> words) {
  const auto i = static_cast<std::size_t>(value);
  return i < words.size() ? *(words.begin() + i) : std::string_view();
}

}  // namespace

std::string json_envelope(const MessageSource& source) {
  const mail::Envelope& e = source.envelope;
  nlohmann::ordered_json j;
  const auto text = [](nlohmann::ordered_json& in, const char* name, std::string_view value) {
    if (!value.empty()) in[name] = value;
  };
  j["queue_id"] = source.name;
  text(j, "queue_name", source.place);
  text(j, "fault", source.fault);
  j["message_size"] = source.size;
  if (source.has_envelope) {
    j["arrival_time"] = unix_seconds(e.arrival);
    j["arrival_microseconds"] = e.arrival.time_since_epoch().count() % 1'000'000;
    j["sender"] = e.sender;
    text(j, "envelope_id", e.envid);
    text(j, "ret", word_of(e.ret, {"", "full", "hdrs"}));
    text(j, "body_type", word_of(e.body_type, {"", "7BIT", "8BITMIME", "BINARYMIME"}));
    text(j, "requiretls", word_of(e.requiretls, {"", "yes", "no"}));
    text(j, "purpose", word_of(e.purpose, {"", "traced", "probe"}));
    text(j, "verp", e.verp);
    text(j, "tenant", e.tenant);
    if (e.priority != 0) j["priority"] = e.priority;
    if (e.release != WallTime{}) j["release_time"] = unix_seconds(e.release);
    text(j, "release_request", e.release_request);
    if (e.smtputf8) j["smtputf8"] = true;
    if (source.gateway) j["gateway"] = true;
    text(j, "transport", e.transport);
    text(j, "filter", e.filter);
    text(j, "full_name", source.full_name);
    auto& client = j["client"] = nlohmann::ordered_json::object();
    text(client, "name", e.client.name);
    text(client, "address", e.client.address);
    if (e.client.port != 0) client["port"] = e.client.port;
    text(client, "helo", e.client.helo);
    text(client, "protocol", e.client.protocol);
    text(client, "reverse_name", e.client.reverse_name);
    text(client, "sasl_method", e.client.sasl_method);
    text(client, "sasl_username", e.client.sasl_username);
    text(client, "sasl_sender", e.client.sasl_sender);
    auto& recipients = j["recipients"] = nlohmann::ordered_json::array();
    for (const auto& r : e.recipients) {
      nlohmann::ordered_json one;
      one["address"] = r.address;
      one["original_recipient"] = r.shown_original();
      text(one, "dsn_orig_rcpt", r.orcpt);
      text(one, "notify", notify_words(r.notify));
      recipients.push_back(std::move(one));
    }
  }
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

LineOutput::LineOutput(std::string prefix, Write write) : prefix_(std::move(prefix)), write_(std::move(write)) {}

void LineOutput::put(std::string_view text) {
  std::string out;
  out.reserve(text.size() + prefix_.size() + 1);
  for (const char c : text) {
    if (at_start_) out += prefix_;
    if (at_start_ && offset_) out += fmt::format("{:9} ", *offset_);
    if (at_start_ && type_) out += fmt::format("{:3} ", static_cast<int>(*type_));
    if (offset_) ++*offset_;
    at_start_ = false;
    if (held_ && c != '\n') out += '\r';
    held_ = c == '\r';
    if (!held_) out += c;
    at_start_ = c == '\n';
  }
  write_(out);
}

void LineOutput::end() {
  if (held_) write_("\r");
  held_ = false;
  if (!at_start_) write_("\n");
  at_start_ = true;
}

void complain_of(const std::string& program, const std::string& name, const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s: %s\n", program.c_str(), readable(name).c_str(), readable(what).c_str());
}

Result<std::uint64_t> header_size_of(const MessageSource& source) {
  using Line = mail::HeaderScanner::Line;
  std::string held;  // the beginning of a line
  bool first = true, decided = false;
  for (std::uint64_t at = 0, line_at = 0; at < source.size;) {
    PEN_TRY_ASSIGN(const std::string piece, source.read(at, kPiece));
    if (piece.empty()) break;
    for (const char c : piece) {
      ++at;
      if (c != '\n' && !decided) held += c;
      const bool whole = c == '\n';
      if (!decided && (whole || held.size() >= mail::HeaderScanner::kDecide)) {
        if (whole && held.ends_with('\r')) held.pop_back();
        const Line kind = mail::HeaderScanner::classify(held, whole, std::exchange(first, false));
        if (kind == Line::separator || kind == Line::body) return line_at;
        decided = true;
      }
      if (!whole) continue;
      held.clear();
      decided = false;
      line_at = at;
    }
  }
  return source.size;
}

bool show_message(const std::string& program, const MessageSource& source, const MessageParts& parts,
                  const Write& write) {
  if (parts.json) {
    write(json_envelope(source));
    return true;
  }
  std::string fault;
  LineOutput out(parts.names ? source.name + ": " : "", write);
  // What comes before the content is before the start, too.
  const bool envelope = parts.envelope && parts.start == 0;
  const auto mark = [&](const char* what, std::optional<Record> type = std::nullopt) {
    if (!envelope) return;
    if (parts.types && type) out.show_type(*type);
    out.put(fmt::format("*** {} {} ***\n", what, readable(source.path())));
  };
  mark("ENVELOPE RECORDS");
  if (envelope) print_envelope(out, source, parts.types);
  mark("MESSAGE CONTENTS", Record::content);
  if (parts.header || parts.body) {
    if (parts.types) out.show_type(Record::line);
    std::uint64_t from = 0, end = source.size;
    if (!parts.header || !parts.body) {
      const auto split = header_size_of(source);
      if (split)
        (parts.header ? end : from) = *split;
      else
        fault = source.content + " cannot be read: " + split.error().message();
    }
    from = std::max(from, parts.start);
    if (parts.offsets) out.count_from(from);
    if (fault.empty()) fault = print_content(out, source, from, end);
    out.count_no_more();
  }
  mark("HEADER EXTRACTED", Record::extracted);
  mark("MESSAGE FILE END", Record::end);
  if (!fault.empty()) complain_of(program, source.name, fault);
  return fault.empty();
}

}  // namespace pen::tools
