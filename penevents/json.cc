#include "penevents/json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "lib/base/text.h"

namespace pen::penevents {
namespace {

using events::Field;
using events::Kind;

/// How many bytes the first character has; 0: it is no character.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 && first <= 0xF4  ? 4
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xC2 && first < 0xE0 ? 2
                                                           : 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  // Longer than needed, surrogates, and above U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return size;
}

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
}

std::string seconds_of(std::uint64_t us) {
  if (us % 1'000'000 == 0) return std::to_string(us / 1'000'000);
  std::string text = std::to_string(us / 1'000'000) + '.';
  const std::string part = std::to_string(us % 1'000'000);
  text.append(6 - part.size(), '0');
  text += part;
  while (text.ends_with('0')) text.pop_back();
  return text;
}

/// Names are ours, and plain.
void append_name(std::string& out, std::string_view name) {
  out += ",\"";
  out += name;
  out += "\":";
}

bool is_delay_part(Field field) {
  return field == Field::delay_before_queue_manager || field == Field::delay_queue_manager ||
         field == Field::delay_connection_setup || field == Field::delay_transmission;
}

void append_delays(std::string& out, const events::Seen& event) {
  const auto part = [&](Field field) { return seconds_of(event.number(field)); };
  append_name(out, "delays");
  out += fmt::format(R"({{"before_queue_manager":{},"queue_manager":{},"connection_setup":{},"transmission":{}}})",
                     part(Field::delay_before_queue_manager), part(Field::delay_queue_manager),
                     part(Field::delay_connection_setup), part(Field::delay_transmission));
}

void append_relay(std::string& out, std::string_view text) {
  const Relay relay = relay_of(text);
  append_name(out, "relay");
  append_json(out, text);
  if (relay.address.empty()) return;
  append_name(out, "relay_host");
  append_json(out, relay.host);
  append_name(out, "relay_address");
  append_json(out, relay.address);
  if (relay.port == 0) return;
  append_name(out, "relay_port");
  out += std::to_string(relay.port);
}

/// The code that the peer's reply began with, where there is one.
void append_reply(std::string& out, std::string_view text) {
  append_name(out, "reply");
  append_json(out, text);
  const auto said = text.find(" said: ");
  const std::string_view reply = said == std::string_view::npos ? text : text.substr(said + 7);
  const auto code = parse_unsigned(reply.substr(0, 3));
  if (!code || *code < 200 || *code > 599 || (reply.size() > 3 && reply[3] != ' ' && reply[3] != '-')) return;
  append_name(out, "reply_code");
  out += std::to_string(*code);
}

/// Of lines: an array.
void append_list(std::string& out, std::string_view lines) {
  out += '[';
  for (bool first = true; !lines.empty(); first = false) {
    const auto end = std::min(lines.find('\n'), lines.size());
    if (!first) out += ',';
    append_json(out, lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  out += ']';
}

void append_value(std::string& out, const events::Seen::Value& value) {
  if (value.field == Field::relay) return append_relay(out, value.text);
  if (value.field == Field::reply) return append_reply(out, value.text);
  append_name(out, name_of(value.field));
  if (value.field == Field::recipients) return append_list(out, value.text);
  switch (kind_of(value.field)) {
    case Kind::text:
      append_json(out, value.text);
      break;
    case Kind::number:
      out += std::to_string(value.number);
      break;
    case Kind::duration:
      out += seconds_of(value.number);
      break;
    case Kind::time:
      append_json(out, date_of(WallTime(microseconds(static_cast<std::int64_t>(value.number)))));
      break;
    case Kind::flag:
      out += value.number != 0 ? "true" : "false";
      break;
  }
}

bool is_attempt(events::Type type) {
  return type == events::Type::delivered || type == events::Type::deferred || type == events::Type::bounced;
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t size = character(text);
    const char c = text.front();
    if (size == 0) {
      out += "\\ufffd";
    } else if (size > 1) {
      const std::string_view whole = text.substr(0, size);
      if (whole == "\xE2\x80\xA8")
        out += "\\u2028";
      else if (whole == "\xE2\x80\xA9")
        out += "\\u2029";
      else
        out += whole;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  out += '"';
}

std::string date_of(WallTime time) {
  const auto us = std::clamp<std::int64_t>(time.time_since_epoch().count(), 0, 253'402'300'799'999'999);  // year 9999
  thread_local std::int64_t last = -1;  // many are of one second
  thread_local std::string date;
  if (us / 1'000'000 != last) {
    last = us / 1'000'000;
    date = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(last)));
  }
  return fmt::format("{}.{:03}Z", date, us / 1000 % 1000);
}

Relay relay_of(std::string_view text) {
  const auto open = text.find('[');
  const auto close = text.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {text, {}, 0};
  Relay relay{text.substr(0, open), text.substr(open + 1, close - open - 1), 0};
  if (close + 1 < text.size() && text[close + 1] == ':')
    relay.port = parse_unsigned(text.substr(close + 2)).value_or(0);
  return relay;
}

std::string json_line(std::uint64_t id, const events::Seen& event, const Origin& origin) {
  std::string out;
  out.reserve(1024);
  fmt::format_to(std::back_inserter(out), R"({{"id":{},"time":"{}","type":"{}")", id, date_of(event.time),
                 name_of(event.type));
  const auto add = [&](std::string_view name, std::string_view text) {
    if (text.empty()) return;
    append_name(out, name);
    append_json(out, text);
  };
  add("host", origin.host);
  add("program", origin.program);
  add("service", origin.service);
  if (origin.pid != 0) out += fmt::format(R"(,"pid":{})", origin.pid);
  const bool attempt = is_attempt(event.type);
  if (attempt && event.text(Field::from).empty()) out += R"(,"from":"")";  // the null sender
  bool delays = false;
  for (const auto& value : event.values) {
    if (is_delay_part(value.field))
      delays = true;
    else if (value.field != Field::final || !attempt)
      append_value(out, value);
  }
  if (delays) append_delays(out, event);
  if (attempt) out += event.number(Field::final) != 0 ? R"(,"final":true)" : R"(,"final":false)";
  out += "}\n";
  return out;
}

}  // namespace pen::penevents
