#include "command.hpp"
#include "option_parsing.hpp"
#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/security/certificates.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace {

using namespace troupe;
namespace fs = std::filesystem;

constexpr auto examples =
  "Examples:\n"
  "  troupe cert --out certificates\n"
  "  troupe cert --out certificates --name worker-1 \\\n"
  "    --hosts worker-1.example,10.0.0.2\n"
  "\n"
  "The first call creates authority.pem and authority.key, which sign the\n"
  "certificates of this and all later calls. Each process needs "
  "authority.pem,\n"
  "a NAME.pem and its NAME.key. Keep authority.key where certificates are\n"
  "created. No file is ever overwritten.\n";

constexpr std::uint64_t most_days = 3650; // also the lifetime of an authority
constexpr auto authority_name = "authority";

struct given {
  std::string out, name = "worker";
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  std::uint64_t days = 365;
};

std::string certificate_name(const std::string& text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'
           || c == '.';
  };
  if (text.empty() || text.size() > 64 || text.front() == '.'
      || text.front() == '-' || !std::ranges::all_of(text, fits))
    throw std::invalid_argument("--name \"" + text
                                + "\": give at most 64 letters, digits, '-', "
                                  "'_' and '.', as in worker-1");
  if (text == authority_name)
    throw std::invalid_argument("--name authority: the authority has "
                                "this name; give another one, as in worker-1");
  return text;
}

struct files {
  fs::path certificate, key;

  files(const fs::path& folder, const std::string& name)
    : certificate{folder / (name + ".pem")}, key{folder / (name + ".key")} {}

  bool any() const { return fs::exists(certificate) || fs::exists(key); }
};

std::string text_of(const fs::path& file) {
  constexpr std::size_t most = 65536;
  std::string text(most, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.empty())
    throw std::runtime_error("cannot read \"" + file.string()
                             + "\": it is missing or empty");
  return text;
}

void write(const files& to, const net::identity& x) {
  net::write_new_file(to.key, x.key, net::readers::owner);
  net::write_new_file(to.certificate, x.certificate, net::readers::everybody);
}

net::certificate_options options_for(const std::string& name,
                                     std::uint64_t days) {
  net::certificate_options options;
  options.name = name;
  options.not_after =
    std::chrono::system_clock::now() + std::chrono::hours{24 * days};
  return options;
}

struct authority {
  net::identity it;
  bool is_new;
};

/// @returns the authority in these files, or a new one if there are none.
authority authority_of(const files& at) {
  if (at.any())
    return {{text_of(at.certificate), text_of(at.key)}, false};
  return {net::make_authority(options_for("Troupe job authority", most_days)),
          true};
}

net::identity certificate_of(const given& x, const authority& by,
                             const files& at) {
  auto options = options_for(x.name, x.days);
  options.hosts = x.hosts;
  try {
    return net::make_certificate(by.it, options);
  } catch (const net::bad_authority& e) {
    throw std::runtime_error("cannot sign with \"" + at.certificate.string()
                             + "\" and \"" + at.key.string()
                             + "\": " + e.what());
  }
}

void make_folder(const fs::path& folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why)
    throw std::runtime_error("--out \"" + folder.string()
                             + "\": there is no such folder, and it cannot be "
                               "made: "
                             + why.message() + "; name another one");
}

int make(const given& x) {
  const fs::path folder{x.out};
  const files at{folder, x.name};
  if (at.any())
    throw std::runtime_error("\"" + at.certificate.string() + "\" or \""
                             + at.key.string()
                             + "\" is there already and is kept; give "
                               "another --name or --out");
  const files above{folder, authority_name};
  const auto by = authority_of(above);
  const auto made = certificate_of(x, by, above);
  make_folder(folder);
  if (by.is_new)
    write(above, by.it);
  write(at, made);
  std::cout << at.certificate.string() << '\n' << at.key.string() << '\n';
  return ok;
}

} // namespace

void add_cert(CLI::App& tool, action& what) {
  auto& command = *tool.add_subcommand(
    "cert", "Make certificates for tests and small clusters");
  const auto x = std::make_shared<given>();
  command
    .add_option_function<std::string>(
      "--out",
      [x](const std::string& text) { x->out = file_name("--out", text); },
      "FOLDER to write to, created if it is missing")
    ->type_name("FOLDER")
    ->required();
  command
    .add_option_function<std::string>(
      "--hosts",
      [x](const std::string& text) {
        x->hosts = names("--hosts", text, "localhost,127.0.0.1");
      },
      "Host names and addresses in the certificate "
      "[localhost,127.0.0.1,::1]")
    ->type_name("LIST");
  command
    .add_option_function<std::string>(
      "--days",
      [x](const std::string& text) {
        x->days = whole_number("--days", text, 1, most_days);
      },
      "Days until the certificate expires; an authority has 3650 [365]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--name",
      [x](const std::string& text) { x->name = certificate_name(text); },
      "Name in the certificate and of NAME.pem, NAME.key [worker]")
    ->type_name("NAME");
  command.footer(examples);
  command.callback([x, &what] { what = [x] { return make(*x); }; });
}
