// Runs before the page is shown: collects errors, and sets the theme so that nothing flashes.
'use strict';
document.documentElement.classList.add('script');
const pageErrors = [];
addEventListener('error', (event) => {
  pageErrors.push(event.message || 'error');
  if (document.body) document.body.dataset.errors = pageErrors.join('; ');
});
addEventListener('securitypolicyviolation', (event) => {
  pageErrors.push('refused: ' + event.blockedURI);
  if (document.body) document.body.dataset.errors = pageErrors.join('; ');
});

// A theme that was chosen: by ?theme=dark in the address, or by the switch on an earlier visit.
// Without one the system's preference holds.
function chosenTheme() {
  const asked = new URLSearchParams(location.search).get('theme');
  if (asked === 'dark' || asked === 'light') return asked;
  try {
    return localStorage.getItem('flashlab-theme');
  } catch {
    return null; // Pages from a file may have no storage.
  }
}
{
  const theme = chosenTheme();
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
}
