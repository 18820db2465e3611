#include "lib/suite/service/arguments.h"

#include <charconv>

namespace pen::service {
namespace {

template <class T>
bool number(const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// "2/4"
bool process_of(const std::string& text, Arguments& out) {
  const auto slash = text.find('/');
  return slash != std::string::npos && number(text.substr(0, slash), out.process) &&
         number(text.substr(slash + 1), out.processes) && out.process >= 1 && out.process <= out.processes;
}

/// What an option without a value switches on; nullptr: the word is no such option.
bool* flag_of(const std::string& word, Arguments& a) {
  if (word == "--help" || word == "-h") return &a.help;
  if (word == "--look") return &a.look;
  if (word == "--version") return &a.version;
  if (word == "-u") return &a.unprivileged;
  if (word == "-v") return &a.debug;
  if (word == "-D") return &a.debugger;
  if (word == "-S") return &a.screens;
  if (word == "-H") return &a.helped;
  if (word == "-B") return &a.badged;
  return nullptr;
}

bool has_value(const std::string& word) {
  return word.size() == 2 && word[0] == '-' && std::string_view("ntispmco").contains(word[1]);
}

/// False: no value for this option.
bool take_value(char option, const std::string& value, Arguments& a) {
  switch (option) {
    case 'n':
      a.service = value;
      return true;
    case 't':
      a.type = value;
      return true;
    case 'i':
      return process_of(value, a);
    case 's':
      return number(value, a.sockets) && a.sockets >= 0 && a.sockets <= 1000;
    case 'p':
      return number(value, a.pages) && a.pages >= 0 && a.pages <= 1000;
    case 'm':
      return number(value, a.limit);
    case 'c':
      a.config_directory = value;
      return true;
    default: {
      const auto equals = value.find('=');
      if (equals == std::string::npos || equals == 0) return false;
      a.overrides.push_back({value.substr(0, equals), value.substr(equals + 1)});
      return true;
    }
  }
}

}  // namespace

std::expected<Arguments, std::string> Arguments::parse(const std::vector<std::string>& words) {
  Arguments a;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!a.rest.empty()) {
      a.rest.push_back(word);  // what looks like an option there belongs to a command
    } else if (bool* const flag = flag_of(word, a)) {
      *flag = true;
    } else if (has_value(word)) {
      if (++i == words.size()) return std::unexpected("option " + word + " needs a value");
      if (!take_value(word[1], words[i], a))
        return std::unexpected("option " + word + ": bad value \"" + words[i] + "\"");
    } else if (word.starts_with('-') && a.service.empty()) {
      return std::unexpected("unknown option " + word);
    } else {
      a.rest.push_back(word);
    }
  }
  return a;
}

std::vector<config::Override> Arguments::settings() const {
  std::vector<config::Override> all = {{"service_name", service}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

std::vector<std::string> Arguments::to_words() const {
  std::vector<std::string> words = {
      "-n", service, "-t", type, "-s", std::to_string(sockets), "-m", std::to_string(limit)};
  if (processes > 1) words.insert(words.end(), {"-i", std::to_string(process) + "/" + std::to_string(processes)});
  if (pages != 0) words.insert(words.end(), {"-p", std::to_string(pages)});
  if (!config_directory.empty()) words.insert(words.end(), {"-c", config_directory});
  if (unprivileged) words.emplace_back("-u");
  if (debug) words.emplace_back("-v");
  if (debugger) words.emplace_back("-D");
  if (screens) words.emplace_back("-S");
  if (helped) words.emplace_back("-H");
  if (badged) words.emplace_back("-B");
  if (look) words.emplace_back("--look");
  for (const auto& o : overrides) words.insert(words.end(), {"-o", o.name + "=" + o.value});
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace pen::service
